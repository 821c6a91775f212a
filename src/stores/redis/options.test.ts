// What `redis()` takes, by its shape, before any server is asked.

import { describe, expect, it } from "vitest";
import { redisError } from "./errors.ts";
import { redis } from "./index.ts";
import { portOf } from "./client/connect.ts";
import { settingsOfUrl } from "./client/own-connection.ts";
import { readOptions } from "./options.ts";
import type { Request } from "../../core/store.ts";
import { storeByUrl } from "../registry.ts";
import { nodeSystem } from "../../system/node.ts";
import { grantOf, readAttempt, readBatch, readPush } from "./commands/script-replies.ts";

describe("redis()", () => {
  it("refuses options that it does not know, none, both, and URLs of something else (P17)", () => {
    const wrong: readonly object[] = [
      {},
      { client: {}, url: "redis://h" },
      { urls: ["redis://h"] },
      { url: "http://h" },
      { url: "redis:h" },
      { url: "redis://h", driver: "other" },
      { url: "redis://h", replicas: -1 },
      { url: "redis://h", replicas: 1.5 },
      { url: "redis://h?replicas=many" },
      { url: "redis://h", scripts: "no" },
      { url: "redis://h?scripts=0" },
    ];
    for (const options of wrong) {
      expect(() => redis(options), JSON.stringify(options)).toThrow(
        expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }) as Error,
      );
    }
  });

  it("takes replicas and scripts from the query of a URL, and leaves the rest to the client", () => {
    const read = (url: string) => {
      const { url: rest, replicas, scripts } = readOptions({ url });
      return { rest, replicas, scripts };
    };
    expect(read("redis://h:1/2")).toEqual({
      rest: "redis://h:1/2",
      replicas: 0,
      scripts: true,
    });
    expect(read("redis://h?replicas=2&family=6")).toEqual({
      rest: "redis://h?family=6",
      replicas: 2,
      scripts: true,
    });
    expect(read("redis://u:p@h/1?scripts=false")).toEqual({
      rest: "redis://u:p@h/1",
      replicas: 0,
      scripts: false,
    });
    expect(readOptions({ url: "redis://h?replicas=2", replicas: 1 }).replicas).toBe(1);
  });

  it.each([
    ["valkey://u:p@h:1/2?replicas=1", "redis://u:p@h:1/2", "node"],
    ["valkeys://h", "rediss://h", "node"],
    ["valkey+cluster://h1:1,h2:2", "redis+cluster://h1:1,h2:2", "cluster"],
    ["valkeys+sentinel://h1:1/main", "rediss+sentinel://h1:1/main", "sentinel"],
  ])("reads %s as the URL of a Redis", (given, url, topology) => {
    expect(readOptions({ url: given })).toMatchObject({ url, topology });
    expect(storeByUrl(given).name).toBe("redis");
  });

  it("promises less where it can do less", () => {
    expect(redis({ url: "redis://h", scripts: false }).guarantees).toMatchObject({
      kinds: ["exclusive"],
      order: "none",
      wakes: "poll",
    });
    expect(redis({ url: "redis://h", replicas: 1 }).guarantees.needs.join()).toContain("acknowledged");
  });

  it("never shows a URL, which may hold a password", () => {
    expect(() => redis({ url: "http://user:secret@h" })).toThrow(/^(?!.*secret).*$/s);
  });

  it("knows a client by its shape, and says what it takes instead", () => {
    expect(() => portOf({ get() {} }, nodeSystem)).toThrow(/node-redis .* ioredis/);
    expect(() => portOf(null, nodeSystem)).toThrow(/node-redis/);
    expect(() => portOf({ isCluster: true, call() {}, duplicate() {} }, nodeSystem)).toThrow(/of one node/);
  });
});

describe("errors of Redis", () => {
  it("have a name, and say whether the same call may succeed later (P17)", () => {
    const retryable = (message: string): boolean => redisError(new Error(message), "x").retryable;
    for (const message of [
      "READONLY You can't write against a read only replica.",
      "LOADING Redis is loading the dataset in memory",
      "CLUSTERDOWN The cluster is down",
      "TRYAGAIN Multiple keys request during rehashing of slot",
      "UNBLOCKED force unblock from blocking operation",
      "OOM command not allowed when used memory > 'maxmemory'.",
      "Socket closed unexpectedly",
    ])
      expect(retryable(message), message).toBe(true);
    for (const message of ["NOAUTH Authentication required.", "NOPERM this user has no permissions"])
      expect(retryable(message), message).toBe(false);
    expect(redisError(new Error("WRONGTYPE Operation against a key"), "x").code).toBe("ERR_STORE_UNSAFE");
  });
});

describe("answers", () => {
  it("that are no fence are never taken for a grant (P8)", () => {
    const asked = {
      keys: ["k"],
      mode: "exclusive",
      limit: 1,
      ttlMs: 1_000,
      reservedFences: 10_000,
      seq: 3,
    } as unknown as Request;
    expect(grantOf(["1700000000000000"], asked)).toEqual({
      fences: [1_700_000_000_000_000n],
      reservedFences: 10_000,
      validMs: 1_000,
      cookie: null,
    });
    const times = "17000000000000001700000000000001";
    expect(readBatch(`${times}gl`, 2)).toMatchObject({
      timeMs: 1.7e12,
      fence: "1700000000000001",
      letters: "gl",
    });
    for (const odd of ["0", "OK", "1", "undefined", null, [], times, `${times}g`, `x${times.slice(1)}gl`])
      expect(() => readBatch(odd, 2), String(odd)).toThrow(/the script answered/);
    for (const odd of [null, "", "1700000000000000", 0, undefined, [], ["other"]])
      expect(() => readAttempt(odd, asked), JSON.stringify(odd)).toThrow(/the script answered/);
  });
});

describe("pushes", () => {
  it("are read word by word, and anything else that is published is ignored", () => {
    expect(readPush("revoked abc planned  maintenance")).toEqual({
      kind: "revoked",
      id: "abc",
      reason: "planned  maintenance",
    });
    expect(readPush("turn abc")).toEqual({ kind: "turn", id: "abc" });
    for (const noise of ["", "hello", "turn", "other abc"]) expect(readPush(noise)).toBe(null);
  });
});

it("names a password in a URL that is not percent-encoded, without showing it (P17)", () => {
  const url = "redis://:secret%zz@h";
  expect(() => settingsOfUrl(url, {}, nodeSystem)).toThrow(/^user and password .* must be percent-encoded$/);
});

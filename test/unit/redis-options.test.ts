// What `redis()` takes, by its shape, before any server is asked.

import { describe, expect, it } from "vitest";
import { redisError } from "../../src/stores/redis/errors.ts";
import { redis } from "../../src/stores/redis/index.ts";
import { portOf } from "../../src/stores/redis/clients.ts";
import type { Request } from "../../src/core/store.ts";
import { readAttempt, readPush } from "../../src/stores/redis/words.ts";

describe("redis()", () => {
  it("refuses options that it does not know, none, both, and URLs of something else (P17)", () => {
    const wrong: readonly object[] = [
      {},
      { client: {}, url: "redis://h" },
      { urls: ["redis://h"] },
      { url: "http://h" },
      { url: "redis:h" },
      { url: "redis://h", driver: "other" },
    ];
    for (const options of wrong) {
      expect(() => redis(options), JSON.stringify(options)).toThrow(
        expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }) as Error,
      );
    }
  });

  it("never shows a URL, which may hold a password", () => {
    expect(() => redis({ url: "http://user:secret@h" })).toThrow(/^(?!.*secret).*$/s);
  });

  it("knows a client by its shape, and says what it takes instead", () => {
    expect(() => portOf({ get() {} })).toThrow(/node-redis .* ioredis/);
    expect(() => portOf(null)).toThrow(/node-redis/);
    expect(() => portOf({ isCluster: true, call() {}, duplicate() {} })).toThrow(/Cluster/);
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
    const asked = { keys: ["k"], mode: "exclusive", limit: 1, ttlMs: 1_000, seq: 3 } as unknown as Request;
    expect(readAttempt("1700000000000000", asked)).toEqual({
      granted: {
        fences: [1_700_000_000_000_000n],
        fenceRoom: 1_000_000,
        validMs: 1_000,
        anchor: 3,
        cookie: null,
      },
    });
    for (const odd of [null, "", "0", "OK", 0, undefined, [], ["other"]])
      expect(() => readAttempt(odd, asked), JSON.stringify(odd)).toThrow(/the script answered/);
  });
});

describe("pushes", () => {
  it("are read word by word, and anything else that is published is ignored", () => {
    expect(readPush("grant abc 7 30000000 1000 1700000000000000 1700000000000001")).toEqual({
      kind: "grant",
      id: "abc",
      grant: {
        fences: [1_700_000_000_000_000n, 1_700_000_000_000_001n],
        fenceRoom: 30_000_000,
        validMs: 1_000,
        anchor: 7,
        cookie: null,
      },
    });
    expect(readPush("revoked abc planned  maintenance")).toEqual({
      kind: "revoked",
      id: "abc",
      reason: "planned  maintenance",
    });
    expect(readPush("look abc")).toEqual({ kind: "look", id: "abc" });
    for (const noise of ["", "hello", "grant", "grant abc", "grant abc x y z 1", "other abc"])
      expect(readPush(noise)).toBe(null);
  });
});

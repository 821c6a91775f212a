// URLs and shapes of a Redis with several nodes, slots, and batches, before any server is asked.

import { describe, expect, it } from "vitest";
import { batchesOf, slotIsMoving } from "../commands/batches.ts";
import { findClockSkew } from "./clock-skew.ts";
import { redisError } from "../errors.ts";
import { redis, redisClusterGuarantees, redisGuarantees, redisSentinelGuarantees } from "../index.ts";
import { isUnsent, NotSentError } from "./node-connection.ts";
import { RedisKeys } from "../commands/keys.ts";
import type { RedisNode } from "../client/port.ts";
import { abortable } from "./shared-run.ts";
import { slotOf } from "./slots.ts";
import { retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import { readNodesUrl } from "../options.ts";

describe("the URL of a Redis with several nodes", () => {
  it("names hosts, login, master and database", () => {
    expect(readNodesUrl("redis+sentinel://us%40er:p%3Aw@h1:1,[::1]:2,h3/my%20master/3")).toEqual({
      topology: "sentinel",
      isSecure: false,
      hosts: [
        { host: "h1", port: 1 },
        { host: "::1", port: 2 },
        { host: "h3", port: 26_379 },
      ],
      master: "my master",
      database: 3,
      login: { username: "us@er", password: "p:w" },
      sentinel: {},
    });
    expect(readNodesUrl("rediss+cluster://:pw@h1,h2:7")).toMatchObject({
      topology: "cluster",
      isSecure: true,
      hosts: [
        { host: "h1", port: 6_379 },
        { host: "h2", port: 7 },
      ],
      login: { password: "pw" },
    });
    expect(readNodesUrl("redis+sentinel://h/m?sentinelUsername=a&sentinelPassword=b%26").sentinel).toEqual({
      username: "a",
      password: "b&",
    });
  });

  it("is refused when it names none, and is never shown (P17)", () => {
    for (const url of [
      "redis+sentinel://h1:1",
      "redis+sentinel://h1:1/",
      "redis+sentinel://h1:1/m/x",
      "redis+sentinel://h1:1/m/1/2",
      "redis+cluster://",
      "redis+cluster://h1,,h2",
      "redis+cluster://h1:99999",
      "redis+cluster://h1/name",
      "redis+cluster://a:secret@h 1",
      "redis+cluster://%zz:secret@h1",
    ]) {
      expect(() => redis({ url }), url).toThrow(
        expect.objectContaining({
          code: "ERR_LOCK_ARGUMENT",
          message: expect.not.stringContaining("secret") as string,
        }) as Error,
      );
    }
  });
});

describe("what is promised", () => {
  it("follows from the URL, or from the shape of the client", () => {
    const [client, nodes] = [{ call() {}, duplicate() {}, status: "ready" }, () => []];
    const declared = (options: object): unknown => redis(options).guarantees;
    expect(declared({ url: "redis://h" })).toBe(redisGuarantees);
    expect(declared({ url: "redis+sentinel://h/m" })).toBe(redisSentinelGuarantees);
    expect(declared({ url: "rediss+cluster://h" })).toBe(redisClusterGuarantees);
    expect(declared({ client: { ...client, options: {} } })).toBe(redisGuarantees);
    expect(declared({ client: { ...client, options: { sentinels: [] } } })).toBe(redisSentinelGuarantees);
    expect(declared({ client: { ...client, options: {}, isCluster: true, nodes } })).toBe(
      redisClusterGuarantees,
    );
    expect(declared({ client: { masters: [], nodeClient() {} } })).toBe(redisClusterGuarantees);
    expect(declared({ client: { getSentinelNode() {}, sendCommand() {} } })).toBe(redisSentinelGuarantees);
    expect(redisClusterGuarantees.kinds).not.toContain("multi");
  });
});

describe("a slot", () => {
  it("is what Redis says it is", () => {
    // From CLUSTER KEYSLOT of a real server; test/stores/redis/server-topology.long.test.ts asks again.
    for (const [name, slot] of [
      ["123456789", 12_739],
      ["foo", 12_182],
      ["{user1000}.following", 3_443],
      ["foo{}{bar}", 8_363],
      ["foo{{bar}}zap", 4_015],
      ["ключ", 10_303],
    ] as const)
      expect(slotOf(name), name).toBe(slot);
  });

  it("is decided by the key alone, whatever braces are in it", () => {
    const keys = new RedisKeys("ns");
    expect(slotOf(keys.record("k"))).toBe(slotOf("k"));
    expect(slotOf(keys.record("{a}b"))).toBe(slotOf("%7Ba%7Db"));
  });
});

describe("a call that looks for the primary", () => {
  const refused = (): Promise<never> => Promise.reject(new NotSentError(new Error("ECONNREFUSED")));

  it("that nobody waits for any more leaves no failure unhandled", async () => {
    const late = Promise.reject(new Error("too late"));
    await expect(abortable({ signal: AbortSignal.abort() }, late)).rejects.toThrow("no connection");
  });

  it("retries within the timeout of its caller, and then says why (P13, P17)", async () => {
    let [nowMs, looks] = [0, 0];
    const sleep = (ms: number): Promise<void> => Promise.resolve(void (nowMs += ms));
    const look = (): Promise<void> => Promise.resolve(void (looks += 1));
    const call = { signal: new AbortController().signal, timeoutMs: 1_000, sleep };
    const rule = { isUnsent, beforePause: look };
    await expect(retryWhileUnsent(call, () => nowMs, refused, rule)).rejects.toThrow("ECONNREFUSED");
    expect(nowMs).toBeGreaterThan(500);
    expect(nowMs).toBeLessThan(900);
    expect(looks).toBeGreaterThan(5);
  });

  it("never repeats what may have been executed (P8)", async () => {
    for (const message of [
      "Socket closed unexpectedly",
      "Connection is closed.",
      "TRYAGAIN",
      "BUSY",
      "OOM x",
    ]) {
      let calls = 0;
      const run = (): Promise<never> => {
        calls += 1;
        return Promise.reject(new Error(message));
      };
      const call = {
        signal: new AbortController().signal,
        timeoutMs: 1_000,
        sleep: () => Promise.resolve(),
      };
      const rule = { isUnsent };
      await expect(retryWhileUnsent(call, () => 0, run, rule)).rejects.toThrow(message);
      expect(calls, message).toBe(1);
    }
    for (const message of ["MOVED 1 h:1", "READONLY x", "LOADING x", "CLUSTERDOWN x"])
      expect(isUnsent(new Error(message)), message).toBe(true);
  });
});

describe("clocks of several nodes", () => {
  const node = (name: string, aheadMs: number): RedisNode => ({
    name,
    isPrimary: true,
    send: () => Promise.resolve([String(1_700_000_000), String(aheadMs * 1_000)]),
  });
  const call = { signal: new AbortController().signal };

  it("that agree are no finding; those that do not are named", async () => {
    expect(await findClockSkew([node("a", 0), node("b", 40)], call, () => 0)).toEqual([]);
    const [found] = await findClockSkew([node("a", 0), node("b", 90), node("c", 10)], call, () => 0);
    expect(found).toMatchObject({ id: "clock-difference", level: "warning" });
    expect(found?.what).toBe("the clock of b is 90 ms ahead of that of a");
    expect(await findClockSkew([], call, () => 0)).toEqual([]);
  });

  it("are not blamed for a slow network", async () => {
    let nowMs = 0;
    const slow = (): number => (nowMs += 60);
    expect(await findClockSkew([node("a", 0), node("b", 90)], call, slow)).toEqual([]);
  });
});

describe("work on many keys", () => {
  it("is cut by count, and by slot where there are slots", () => {
    expect(batchesOf(5, 2, null)).toEqual([[0, 1], [2, 3], [4]]);
    expect(batchesOf(5, 2, (at) => at % 2)).toEqual([[0, 2], [1, 3], [4]]);
    expect(batchesOf(0, 2, null)).toEqual([]);
  });

  it("is done one by one while its slot moves", () => {
    expect(slotIsMoving(redisError(new Error("TRYAGAIN Multiple keys request"), "x"))).toBe(true);
    expect(slotIsMoving(redisError(new Error("CLUSTERDOWN"), "x"))).toBe(false);
  });
});

// A primary with one replica that is stopped and killed: with `replicas: 1` nothing is granted, renewed or
// handed over that the replica does not have, and nothing is left behind. Both clients, by script and by
// transaction.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startRedis } from "../../../scripts/servers/redis.ts";
import { createLocks } from "../../../src/index.ts";
import { redis, type RedisOptions } from "../../../src/stores/redis/index.ts";
import { io, RedisWorld, request, until } from "./fixture.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";

const FEW = "0 of the 1 replicas";

let world: RedisWorld;
let replica: RunningServer | null = null;

async function attach(): Promise<void> {
  const args = ["--replicaof", "127.0.0.1", String(world.server.port)];
  replica ??= await startRedis({ own: true, args });
  replica.kill("SIGCONT");
  await until("a write at the replica", async () => {
    await world.ask("SET", "seen", "1");
    return Number(await world.ask("WAIT", "1", "50")) === 1;
  });
}

beforeAll(async () => {
  world = await RedisWorld.start();
});

beforeEach(attach);

afterAll(async () => {
  await replica?.stop();
  await world?.stop();
});

const ways: readonly Partial<RedisOptions>[] = [
  { driver: "redis" },
  { driver: "ioredis" },
  { driver: "redis", scripts: false },
  { driver: "ioredis", scripts: false },
];

describe.each(ways)("with replicas: 1 and %o, a caller", (way) => {
  it("that gives up while its attempt is under way leaves nothing behind (P8, P16)", async () => {
    const store = await world.open({ url: world.url, replicas: 1, ...way });
    // Both connections of their own are open from here on.
    const first = request("given up");
    await store.attempt(first, io);
    await store.abandon([first], io);
    for (let turn = 0; turn < 60; turn += 1) {
      const one = request("given up");
      const attempting = store.attempt(one, io);
      if (turn % 3 > 0) await io.sleep((turn % 7) / 4);
      await Promise.all([store.abandon([one], io), attempting]);
      expect(await store.inspect("given up", io)).toBe(null);
    }
  });
});

describe.each(ways)("with replicas: 1 and %o", (way) => {
  const locksOf = (options = {}) => createLocks(redis({ url: world.url, replicas: 1, ...way }), options);

  it("a lock that the replica does not have is refused with the counts, in time, and nothing is left (P8, P13, P16)", async () => {
    const [locks, near] = [locksOf(), createLocks(world.url)];
    const before = await locks.acquire("k");
    await before.release();
    replica?.kill("SIGSTOP");
    const meter = new StallMeter();
    await expect(locks.acquire("k", { wait: 1_000 })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining(FEW) as string,
    });
    // The wait, and the time that one call may take.
    expect(meter.workingMs()).toBeLessThan(3_000);
    await until("the giving back", async () => (await near.inspect("k")) === null);
    await expect(locks.tryAcquire("k")).rejects.toThrow(FEW);
    await until("the giving back", async () => (await near.inspect("k")) === null);
    replica?.kill("SIGCONT");
    const after = await locks.acquire("k");
    expect(after.fence > before.fence).toBe(true);
    await after.release();
    await locks.close();
    await near.close();
  });

  it("a lease that the replica does not see renewed ends with its window (P2, P7)", async () => {
    const locks = locksOf({ ttl: 1_200 });
    const lease = await locks.acquire("renewed");
    await io.sleep(1_500);
    expect(lease.held).toBe(true);
    replica?.kill("SIGSTOP");
    await until("the loss", () => lease.signal.aborted);
    expect(lease.held).toBe(false);
    replica?.kill("SIGCONT");
    await (await locks.acquire("renewed", { wait: "100s" })).release();
    await locks.close();
  });

  it("a key that is handed over is its new holder's only when the replica knows it", async () => {
    const [locks, near] = [locksOf(), createLocks(world.url)];
    const lease = await near.acquire("handed");
    let got = false;
    const waiting = locks.acquire("handed", { wait: "100s" }).then((next) => {
      got = true;
      return next;
    });
    // Without scripts a waiter has no place in the queue.
    if (!("scripts" in way))
      await until("the waiter", async () => ((await near.inspect("handed"))?.waiters ?? []).length === 1);
    replica?.kill("SIGSTOP");
    expect(await lease.release()).toBe(true);
    await io.sleep(1_500);
    expect(got).toBe(false);
    replica?.kill("SIGCONT");
    const next = await waiting;
    expect(next.held).toBe(true);
    expect(next.fence > lease.fence).toBe(true);
    await next.release();
    await until("an empty key", async () => (await near.inspect("handed")) === null);
    await locks.close();
    await near.close();
  });
});

describe("a replica", () => {
  it("that was killed counts no more, and check() says so", async () => {
    const locks = createLocks(`${world.url}?replicas=1`);
    await (await locks.acquire("killed")).release();
    const ids = async (): Promise<string[]> => (await locks.check()).map(({ id }) => id);
    expect(await ids()).not.toContain("few-replicas");
    expect(await ids()).not.toContain("asynchronous-replication");
    const unasked = createLocks(world.url);
    expect(await unasked.check()).toContainEqual(
      expect.objectContaining({ id: "asynchronous-replication", level: "info" }),
    );
    await unasked.close();
    replica?.kill("SIGKILL");
    await replica?.stop();
    replica = null;
    await expect(locks.acquire("killed", { wait: 500 })).rejects.toThrow(FEW);
    await until("the end of its connection", async () => (await ids()).includes("few-replicas"));
    await attach();
    await (await locks.acquire("killed")).release();
    await locks.close();
  });

  it("that the primary has become is noticed on connect (ROLE)", async () => {
    const locks = createLocks(`${world.url}?replicas=1`);
    await (await locks.acquire("role")).release();
    await world.ask("REPLICAOF", "127.0.0.1", "1");
    await world.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await expect(locks.tryAcquire("role")).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: true,
    });
    await expect(locks.tryAcquire("role")).rejects.toThrow("replica");
    await world.ask("REPLICAOF", "NO", "ONE");
    await attach();
    await (await locks.acquire("role")).release();
    await locks.close();
  });

  it("is waited for once by locks that are taken at one time", async () => {
    const locks = createLocks(`${world.url}?replicas=1`);
    await (await locks.acquire("warm")).release();
    const waits = async (): Promise<number> =>
      Number(/cmdstat_wait:calls=(\d+)/.exec(String(await world.ask("INFO", "commandstats")))?.[1] ?? 0);
    const before = await waits();
    const leases = await Promise.all(Array.from({ length: 50 }, (_, n) => locks.acquire(`many-${n}`)));
    expect((await waits()) - before).toBeLessThanOrEqual(5);
    await Promise.all(leases.map((lease) => lease.release()));
    await locks.close();
  });
});

// The API of redlock over holdfast, on real servers.

import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import Redlock, { ExecutionError, LockError, ResourceLockedError } from "../../src/compat/redlock.ts";
import { createLocks } from "../../src/index.ts";

const MASTERS = 3;
const NO_RETRY = { retryCount: 0 };
let servers: RunningServer[];
const opened: Redlock[] = [];

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function open(count: number): Redlock {
  const clients = servers.slice(0, count).map(({ url }) => new Redis(url));
  const redlock = new Redlock(clients);
  opened.push(redlock);
  return redlock;
}

beforeAll(async () => {
  servers = await Promise.all(Array.from({ length: MASTERS }, () => startRedis({ own: true })));
});

afterEach(() => Promise.all(opened.splice(0).map((redlock) => redlock.quit())));
afterAll(() => Promise.all((servers ?? []).map((server) => server.stop())));

describe("on one master", () => {
  it("acquires, extends and releases, and a later lock has a larger value (P1, P3)", async () => {
    const redlock = open(1);
    const lock = await redlock.acquire(["a"], 10_000);
    expect(lock.expiration - Date.now()).toBeGreaterThan(8_000);
    const longer = await lock.extend(60_000);
    expect(longer.expiration - Date.now()).toBeGreaterThan(50_000);
    expect(lock.expiration).toBe(0);
    expect(longer.value).toBe(lock.value);
    await longer.release();
    const next = await redlock.lock("a", 10_000);
    expect(BigInt(next.value) > BigInt(lock.value)).toBe(true);
    await next.unlock();
  });

  it("tells a busy resource, takes all resources or none (P1, P9)", async () => {
    const redlock = open(1);
    const lock = await redlock.acquire(["b1", "b2"], 10_000);
    const errors: unknown[] = [];
    redlock.on("error", (error) => errors.push(error));
    const failed = await redlock.acquire(["b2", "b3"], 10_000, NO_RETRY).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ExecutionError);
    expect(failed).toBeInstanceOf(LockError);
    const [stats] = await Promise.all((failed as ExecutionError).attempts);
    expect([...(stats?.votesAgainst.values() ?? [])][0]).toBeInstanceOf(ResourceLockedError);
    expect(errors[0]).toBeInstanceOf(ResourceLockedError);
    const third = await redlock.acquire(["b3"], 10_000, NO_RETRY);
    await Promise.all([lock.release(), third.release()]);
  });

  it("a lock of acquire is not renewed; what comes after its end is rejected (P5)", async () => {
    const redlock = open(1);
    const lock = await redlock.acquire(["c"], 150);
    const next = await redlock.acquire(["c"], 10_000, { retryCount: 100, retryDelay: 50 });
    await expect(lock.release()).rejects.toBeInstanceOf(ExecutionError);
    await expect(lock.extend(1_000)).rejects.toThrow("already-expired");
    await expect(redlock.acquire(["c"], 1_000, NO_RETRY)).rejects.toBeInstanceOf(ExecutionError);
    await next.release();
  });

  it("using renews past the duration, is exclusive, and gives the result (P1)", async () => {
    const redlock = open(1);
    const settings = { automaticExtensionThreshold: 100, retryCount: 100, retryDelay: 1_000 };
    let inside = 0;
    const run = (result: string, workMs: number): Promise<string> =>
      redlock.using(["d"], 3_000, settings, async (signal) => {
        inside += 1;
        expect(inside).toBe(1);
        await sleep(workMs);
        expect(signal.aborted).toBe(false);
        inside -= 1;
        return result;
      });
    expect(await Promise.all([run("one", 3_600), run("two", 10)])).toEqual(["one", "two"]);
  });

  it("using aborts its signal when the lock is lost, and rejects (P7)", async () => {
    const redlock = open(1);
    const locks = createLocks(servers[0]?.url as string);
    const settings = { automaticExtensionThreshold: 100 };
    let seen: unknown;
    const used = redlock.using(["e"], 10_000, settings, async (signal) => {
      await locks.revoke("e", { reason: "test", force: true });
      if (!signal.aborted)
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      seen = signal.error;
    });
    await expect(used).rejects.toBeInstanceOf(ExecutionError);
    expect(seen).toBeInstanceOf(ExecutionError);
    await locks.close();
  });

  it("passes on what the routine throws, and rejects what redlock rejects", async () => {
    const redlock = open(1);
    const own = new Error("own");
    await expect(redlock.using(["f"], 1_000, () => Promise.reject(own))).rejects.toBe(own);
    await expect(redlock.acquire(["f"], 1.5)).rejects.toThrow("integer");
    await expect(redlock.using(["f"], 500, async () => 1)).rejects.toThrow("at least 100ms");
    expect(() => new Redlock([])).toThrow("at least one");
  });
});

it("works over a Locks of any store, which quit leaves open", async () => {
  const locks = createLocks("memory:compat-redlock");
  const redlock = new Redlock(locks);
  const lock = await redlock.acquire(["a", "b"], 1_000);
  expect(lock.value.split(",")).toHaveLength(2);
  await redlock.quit();
  expect(await locks.tryAcquire("a")).toBeNull();
  await lock.release();
  await locks.close();
});

it("on three new masters nothing is granted before they may vote (P19)", async () => {
  const failed = await open(MASTERS)
    .acquire(["a"], 1_000, NO_RETRY)
    .catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(ExecutionError);
  expect((failed as Error).message).toMatch(/quorum/);
});

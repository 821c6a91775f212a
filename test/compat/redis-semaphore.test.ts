// The API of redis-semaphore over holdfast, on a real server.

import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import {
  LostLockError,
  MultiSemaphore,
  Mutex,
  RedlockMutex,
  Semaphore,
  TimeoutError,
} from "../../src/compat/redis-semaphore.ts";
import { createLocks, type Locks } from "../../src/index.ts";

const SHORT = { lockTimeout: 10_000, acquireTimeout: 100 };
let server: RunningServer;
let client: Redis;
let locks: Locks;

beforeAll(async () => {
  server = await startRedis({ own: true });
  client = new Redis(server.url);
  locks = createLocks(server.url);
});

afterAll(async () => {
  await locks?.close();
  client?.disconnect();
  await server?.stop();
});

it("a mutex is exclusive, renewed and reusable; its identifier is the holder's label (P1)", async () => {
  const options = { ...SHORT, lockTimeout: 4_500 };
  const [one, two] = [new Mutex(locks, "m", options), new Mutex(client, "m", options)];
  for (let round = 0; round < 2; round += 1) {
    await one.acquire();
    expect(one.isAcquired).toBe(true);
    await expect(two.acquire()).rejects.toThrow(TimeoutError);
    await new Promise<void>((resolve) => {
      const off = locks.on("renewed", () => resolve(off()));
    });
    expect(await two.tryAcquire()).toBe(false);
    expect((await locks.inspect("mutex:m"))?.holders[0]?.label).toBe(one.identifier);
    await one.release();
    expect(one.isAcquired).toBe(false);
  }
  await two.acquire();
  await two.release();
  await two.release();
});

it("without refreshInterval a mutex ends, and says so (P7)", async () => {
  let mutex = new Mutex(client, "ends");
  const lost = new Promise<LostLockError>((resolve) => {
    mutex = new Mutex(client, "ends", { lockTimeout: 300, refreshInterval: 0, onLockLost: resolve });
  });
  await mutex.acquire();
  const error = await lost;
  expect(error).toBeInstanceOf(LostLockError);
  expect(error.message).toBe("Lost mutex for key mutex:ends");
  expect(mutex.isAcquired).toBe(false);
  await mutex.release();
});

it("semaphores count permits (P1)", async () => {
  const semaphores = [1, 2, 3].map(() => new Semaphore(client, "s", 2, SHORT));
  expect(await Promise.all(semaphores.slice(0, 2).map((one) => one.tryAcquire()))).toEqual([true, true]);
  expect(await semaphores[2]?.tryAcquire()).toBe(false);
  await Promise.all(semaphores.map((one) => one.release()));
  const [two, other] = [
    new MultiSemaphore(client, "p", 3, 2, SHORT),
    new MultiSemaphore(client, "p", 3, 2, SHORT),
  ];
  await two.acquire();
  await expect(other.acquire()).rejects.toThrow("Acquire multi-semaphore semaphore:p timeout");
  await two.release();
  await other.acquire();
  await other.release();
});

it("a signal ends the wait with its reason", async () => {
  const [one, two] = [new Mutex(client, "abort"), new Mutex(client, "abort")];
  await one.acquire();
  const reason = new Error("enough");
  await expect(two.acquire(AbortSignal.abort(reason))).rejects.toBe(reason);
  await one.release();
});

it("works over a Locks, and rejects what it cannot do by name", async () => {
  const given = createLocks("memory:compat-redis-semaphore");
  const mutex = new RedlockMutex(given, "k", SHORT);
  await mutex.acquire();
  expect(await new Mutex(given, "k", SHORT).tryAcquire()).toBe(false);
  expect(() => mutex.stopRefresh()).toThrow("refreshInterval: 0");
  expect(() => new Mutex(given, "k", { identifier: "a", acquiredExternally: true })).toThrow("taken over");
  expect(() => new Mutex(null as never, "k")).toThrow('"client" is required');
  expect(() => new Semaphore(given, "k", 0)).toThrow('"limit" is required');
  await mutex.release();
  await given.close();
});

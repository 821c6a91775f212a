// The API of async-mutex over holdfast: each case runs over the real package too, which says what it
// must show.

import * as original from "async-mutex";
import { afterEach, describe, expect, it } from "vitest";
import * as layer from "../../src/compat/async-mutex.ts";
import { LockLostError, UnsupportedError } from "../../src/index.ts";
import { createTestLocks, type TestLocks } from "../../src/testing/index.ts";

const opened: TestLocks[] = [];
afterEach(async () => {
  for (const locks of opened.splice(0)) await locks.close();
});

function world(): TestLocks {
  const locks = createTestLocks();
  opened.push(locks);
  return locks;
}

interface Library {
  readonly name: string;
  readonly errors: Pick<typeof layer, "E_ALREADY_LOCKED" | "E_CANCELED" | "E_TIMEOUT">;
  mutex(): layer.MutexInterface;
  semaphore(value: number): layer.SemaphoreInterface;
  withTimeout(mutex: layer.MutexInterface, ms: number, error?: Error): layer.MutexInterface;
  tryAcquire(mutex: layer.MutexInterface): layer.MutexInterface;
}

// The layer adds the lease to what async-mutex returns and calls back with, which these cases do not read.
const theirs = original as unknown as Omit<typeof layer, "Mutex" | "Semaphore">;
const libraries: Library[] = [
  {
    name: "async-mutex",
    errors: original,
    mutex: () => new original.Mutex() as unknown as layer.MutexInterface,
    semaphore: (value) => new original.Semaphore(value) as unknown as layer.SemaphoreInterface,
    withTimeout: theirs.withTimeout,
    tryAcquire: theirs.tryAcquire,
  },
  {
    name: "the layer",
    errors: layer,
    mutex: () => new layer.Mutex(world(), "k"),
    semaphore: (value) => new layer.Semaphore(world(), "k", value),
    withTimeout: layer.withTimeout,
    tryAcquire: layer.tryAcquire,
  },
];

describe.each(libraries)("$name", ({ errors, mutex, semaphore, withTimeout, tryAcquire }) => {
  it("excludes, in order, and tells that it is locked (P1)", async () => {
    const one = mutex();
    const order: number[] = [];
    let inside = 0;
    await Promise.all(
      [1, 2, 3].map((at) =>
        one.runExclusive(async () => {
          inside += 1;
          expect(inside).toBe(1);
          expect(one.isLocked()).toBe(true);
          await Promise.resolve();
          order.push(at);
          inside -= 1;
        }),
      ),
    );
    expect(order).toEqual([1, 2, 3]);
    expect(one.isLocked()).toBe(false);
    await expect(one.runExclusive(() => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
    expect(one.isLocked()).toBe(false);
  });

  it("gives back by the releaser, which is idempotent, or by release", async () => {
    const one = mutex();
    const release = await one.acquire();
    const second = one.acquire();
    release();
    release();
    await second;
    expect(one.isLocked()).toBe(true);
    one.release();
    one.release();
    expect(one.isLocked()).toBe(false);
    await one.waitForUnlock();
  });

  it("cancel rejects those who wait, and nobody else", async () => {
    const one = mutex();
    await one.acquire();
    const waiting = [one.acquire(), one.runExclusive(() => "never")];
    const rejected = Promise.all(waiting.map((call) => expect(call).rejects.toBe(errors.E_CANCELED)));
    one.cancel();
    await rejected;
    expect(one.isLocked()).toBe(true);
    one.release();
    expect(await one.runExclusive(() => "next")).toBe("next");
  });

  it("withTimeout and tryAcquire give up with their errors", async () => {
    const one = mutex();
    const mine = new Error("mine");
    const release = await one.acquire();
    await expect(withTimeout(one, 0).acquire()).rejects.toBe(errors.E_TIMEOUT);
    await expect(withTimeout(one, 0, mine).runExclusive(() => "never")).rejects.toBe(mine);
    await expect(tryAcquire(one).acquire()).rejects.toBe(errors.E_ALREADY_LOCKED);
    expect(tryAcquire(one).isLocked()).toBe(true);
    release();
    expect(await withTimeout(one, 1_000).runExclusive(() => "in time")).toBe("in time");
  });

  it("a semaphore counts its permits", async () => {
    const three = semaphore(3);
    const [value, release] = await three.acquire();
    expect([value, three.getValue()]).toEqual([3, 2]);
    expect(await three.runExclusive((seen) => [seen, three.isLocked()], 2)).toEqual([2, true]);
    const all = three.acquire(3);
    release();
    const [free, releaseAll] = await all;
    expect([free, three.getValue(), three.isLocked()]).toEqual([3, 0, true]);
    releaseAll();
    await three.waitForUnlock(3);
    three.setValue(1);
    await three.acquire();
    expect(three.isLocked()).toBe(true);
    three.release();
    expect(() => three.acquire(0)).toThrow("invalid weight");
    expect(() => three.release(-1)).toThrow("invalid weight");
  });
});

describe("only the layer", () => {
  it("excludes every object of the key, and waits for other processes", async () => {
    const locks = world();
    const [one, other] = [new layer.Mutex(locks, "order:42"), new layer.Mutex(locks, "order:42")];
    const release = await one.acquire();
    await expect(layer.tryAcquire(other).acquire()).rejects.toBe(layer.E_ALREADY_LOCKED);
    expect([one.isLocked(), other.isLocked()]).toEqual([true, false]);
    release();
    const free = locks.busy("order:42");
    const late = expect(layer.withTimeout(one, 5_000).acquire()).rejects.toBe(layer.E_TIMEOUT);
    await locks.advance(5_000);
    await late;
    free();
    expect(await other.runExclusive(({ key }) => key)).toBe("order:42");
  });

  it("a lost lease rejects runExclusive and is no longer locked (P5)", async () => {
    const locks = world();
    const mutex = new layer.Mutex(locks, "k");
    const lost = mutex.runExclusive(({ signal }) => {
      locks.lose("k");
      expect([signal.aborted, mutex.isLocked()]).toEqual([true, false]);
    });
    await expect(lost).rejects.toThrow(LockLostError);
  });

  it("rejects a priority, and objects that are not its own", async () => {
    await expect(new layer.Mutex(world(), "k").acquire(1)).rejects.toThrow(UnsupportedError);
    const foreign = new original.Mutex() as unknown as layer.MutexInterface;
    expect(() => layer.tryAcquire(foreign)).toThrow(UnsupportedError);
  });

  it("permits that were taken together are free when all of them are given back", async () => {
    const locks = world();
    const semaphore = new layer.Semaphore(locks, "k", 2);
    await semaphore.acquire(2);
    semaphore.release();
    expect(await locks.tryAcquire("k", { limit: 2 })).toBe(null);
    semaphore.release();
    expect(await semaphore.runExclusive((value) => value, 2)).toBe(2);
  });
});

// Locks for the tests of an application: what happens when a test asks for it, and that it happens at once.

import { afterEach, describe, expect, it, vi } from "vitest";
import {
  DeadlockError,
  InvalidArgumentError,
  LockLostError,
  LockTimeoutError,
  StoreUnavailableError,
} from "../index.ts";
import { createTestLocks, type TestLocks } from "./test-locks.ts";

const LONG_MS = 600_000;
const opened: TestLocks[] = [];

function fresh(...args: Parameters<typeof createTestLocks>): TestLocks {
  const locks = createTestLocks(...args);
  opened.push(locks);
  return locks;
}

afterEach(async () => {
  vi.useRealTimers();
  for (const locks of opened.splice(0)) await locks.close();
});

describe("test locks", () => {
  it("are locks: exclusion, order and growing fences, without any time", async () => {
    const locks = fresh();
    const seen: bigint[] = [];
    await Promise.all(
      Array.from({ length: 5 }, () => locks.using("k", async ({ fence }) => void seen.push(fence))),
    );
    expect(seen).toHaveLength(5);
    expect(seen).toEqual(seen.toSorted((a, b) => Number(a - b)));
    const lease = await locks.acquire("k");
    expect(await locks.tryAcquire("k")).toBe(null);
    expect(await lease.release()).toBe(true);
  });

  it("share nothing with other instances", async () => {
    const [one, other] = [fresh(), fresh()];
    const lease = await one.acquire("k", { renew: false, ttl: "1s" });
    expect((await other.acquire("k")).held).toBe(true);
    await other.advance(LONG_MS);
    expect(lease.held).toBe(true);
    await one.advance(1_000);
    expect(lease.held).toBe(false);
  });

  it("find deadlocks", async () => {
    const locks = fresh();
    const crossing = (first: string, second: string): Promise<unknown> =>
      locks
        .using(first, async () => {
          await locks.using(second, () => {});
        })
        .catch((error: unknown) => error);
    const both = Promise.all([crossing("a", "b"), crossing("b", "a")]);
    await locks.advance(1_000);
    expect((await both).filter((end) => end instanceof DeadlockError)).toHaveLength(1);
  });
});

describe("advance", () => {
  it("ends a wait at its own time", async () => {
    const locks = fresh();
    locks.busy("order:42");
    let error: unknown = null;
    locks.acquire("order:42", { wait: "5s" }).catch((thrown: unknown) => {
      error = thrown;
    });
    await locks.advance(4_999);
    expect(error).toBe(null);
    await locks.advance(1);
    expect(error).toBeInstanceOf(LockTimeoutError);
  });

  it("renews leases, and ends those that are not renewed", async () => {
    const locks = fresh({ ttl: "10s" });
    const [renewed, plain] = [await locks.acquire("a"), await locks.acquire("b", { renew: false })];
    await locks.advance(60_000);
    expect([renewed.held, plain.held]).toEqual([true, false]);
    expect(plain.signal.reason).toBeInstanceOf(LockLostError);
  });

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, "5s" as unknown as number])("rejects %s", async (ms) => {
    await expect(fresh().advance(ms)).rejects.toThrow(InvalidArgumentError);
  });
});

describe("busy", () => {
  it("names the other holder, which renews for as long as the test wants", async () => {
    const locks = fresh();
    const free = locks.busy("order:42", "worker-7");
    await locks.advance(LONG_MS);
    expect(await locks.tryAcquire("order:42")).toBe(null);
    expect((await locks.inspect("order:42"))?.holders).toMatchObject([{ label: "worker-7" }]);
    await expect(locks.acquire("order:42", { wait: 0 })).rejects.toThrow("worker-7");
    free();
    expect((await locks.acquire("order:42", { wait: 0 })).held).toBe(true);
  });

  it("hands the key to whoever waits when it is freed, without any time", async () => {
    const locks = fresh();
    const free = locks.busy("k");
    const waiting = locks.acquire("k");
    await locks.advance(100);
    free();
    free();
    expect((await waiting).held).toBe(true);
  });

  it("rejects a key that is held, and says by whom", async () => {
    const locks = fresh({ label: "me" });
    const lease = await locks.acquire("k");
    expect(() => locks.busy("k")).toThrow('"k" is already held by "me"');
    await lease.release();
    locks.busy("k");
    expect(() => locks.busy("k")).toThrow(InvalidArgumentError);
    expect(() => locks.busy("")).toThrow(InvalidArgumentError);
  });
});

describe("lose", () => {
  it("tells the holder before it returns, and lets the next one in", async () => {
    const locks = fresh();
    const lease = await locks.acquire("k");
    locks.lose("k");
    expect([lease.held, lease.signal.aborted]).toEqual([false, true]);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await lease.release()).toBe(false);
    const next = await locks.acquire("k", { wait: 0 });
    expect(next.fence).toBeGreaterThan(lease.fence);
  });

  it("rejects the call whose callback runs", async () => {
    const locks = fresh();
    const call = locks.using("k", async ({ signal }) => {
      locks.lose("k");
      signal.throwIfAborted();
    });
    await expect(call).rejects.toThrow(LockLostError);
  });

  it("ends the whole lease of several keys, and all readers of a key", async () => {
    const locks = fresh();
    const several = await locks.acquire(["a", "b"]);
    locks.lose("b");
    expect(several.held).toBe(false);
    await locks.advance(1_000);
    expect(await locks.inspect("a")).toBe(null);
    const readers = [
      await locks.acquire("r", { mode: "shared" }),
      await locks.acquire("r", { mode: "shared" }),
    ];
    locks.lose("r");
    expect(readers.map(({ held }) => held)).toEqual([false, false]);
  });

  it("rejects a key that these locks do not hold", async () => {
    const locks = fresh();
    expect(() => locks.lose("k")).toThrow(InvalidArgumentError);
    locks.busy("k");
    await locks.tryAcquire("k");
    expect(() => locks.lose("k")).toThrow("must be held by these locks");
  });
});

describe("storeDown", () => {
  it("fails calls, ends leases with their window, and lets both recover", async () => {
    const locks = fresh({ ttl: "10s" });
    const lease = await locks.acquire("k");
    const up = locks.storeDown();
    await expect(locks.tryAcquire("other")).rejects.toThrow(StoreUnavailableError);
    await expect(locks.inspect("k")).rejects.toThrow(StoreUnavailableError);
    await expect(locks.list()[Symbol.asyncIterator]().next()).rejects.toThrow(StoreUnavailableError);
    expect(lease.held).toBe(true);
    await locks.advance(10_000);
    expect(lease.held).toBe(false);
    up();
    const again = locks.acquire("k", { wait: "1m" });
    await locks.advance(5_000);
    expect((await again).held).toBe(true);
  });

  it("before the first call: the store opens within the wait of the call once it is back", async () => {
    const locks = fresh();
    const [one, two] = [locks.storeDown(), locks.storeDown()];
    const waiting = locks.acquire("k", { wait: "10s" });
    await locks.advance(1_000);
    one();
    one();
    await locks.advance(1_000);
    await expect(locks.tryAcquire("k")).rejects.toThrow(StoreUnavailableError);
    two();
    await locks.advance(5_000);
    expect((await waiting).held).toBe(true);
  });
});

describe("close", () => {
  it("lets virtual time pass by itself", async () => {
    const locks = createTestLocks();
    const lease = await locks.acquire("kept");
    const stuck = locks.using("stuck", () => new Promise(() => {}));
    const rejected = expect(stuck).rejects.toThrow();
    await locks.advance(0);
    await locks.close({ drain: "2m" });
    await rejected;
    expect(lease.held).toBe(false);
    await expect(locks.acquire("k")).rejects.toThrow();
  });
});

describe("beside fake timers", () => {
  it("locks work, and only their own time moves", async () => {
    vi.useFakeTimers({
      toFake: [
        "setTimeout",
        "setImmediate",
        "setInterval",
        "Date",
        "performance",

        "queueMicrotask",
      ],
    });
    const locks = fresh();
    const rung = vi.fn<() => void>();
    setTimeout(rung, 1_000);
    locks.busy("k");
    const waiting = locks.acquire("k", { wait: "5s" });
    const rejected = expect(waiting).rejects.toThrow(LockTimeoutError);
    await expect(locks.acquire("k", { signal: AbortSignal.abort() })).rejects.toThrow();
    await locks.advance(5_000);
    await rejected;
    expect(rung).not.toHaveBeenCalled();
    const lease = await locks.acquire("other", { ttl: "1s", renew: false });
    vi.advanceTimersByTime(LONG_MS);
    expect(rung).toHaveBeenCalledOnce();
    expect(lease.held).toBe(true);
    await locks.close();
  });
});

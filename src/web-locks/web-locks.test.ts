import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../index.ts";
import { type WebLock, webLocks, type WebLockManager } from "./index.ts";

let locks: Locks;
let other: Locks;
let manager: WebLockManager;
let names = 0;

beforeEach(() => {
  names += 1;
  locks = createLocks(`memory:web-locks-${names}`, { label: "here" });
  other = createLocks(`memory:web-locks-${names}`, { label: "there" });
  manager = webLocks(locks);
});

afterEach(() => Promise.all([locks, other].map((one) => one.close({ drain: 0 }))));

describe("request", () => {
  it("holds the lock until the callback settles, and resolves with its result (P1)", async () => {
    const result = await manager.request("a", async (lock) => {
      expect(lock).toMatchObject({ name: "a", mode: "exclusive" });
      expect(await other.tryAcquire("a")).toBeNull();
      return 42;
    });
    expect(result).toBe(42);
    expect(await other.inspect("a")).toBeNull();
  });

  it("releases the lock when the callback throws, and rejects with the same error", async () => {
    const error = new Error("mine");
    const failing = manager.request("a", () => {
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect(await other.inspect("a")).toBeNull();
  });

  it("lets readers in together, and a writer alone", async () => {
    const order: string[] = [];
    const readers = [1, 2].map((n) =>
      manager.request("a", { mode: "shared" }, async () => {
        order.push(`reader ${n} in`);
        await expect.poll(() => order.filter((entry) => entry.startsWith("reader")).length).toBe(2);
      }),
    );
    await Promise.all(readers);
    await manager.request("a", async () => void order.push("writer"));
    expect(order.at(-1)).toBe("writer");
  });

  it("grants the requests of one name in their order", async () => {
    const order: number[] = [];
    await Promise.all([1, 2, 3, 4].map((n) => manager.request("a", async () => void order.push(n))));
    expect(order).toEqual([1, 2, 3, 4]);
  });

  it("calls back with null if the lock is not available", async () => {
    const lease = await other.acquire("a");
    const seen = await manager.request("a", { ifAvailable: true }, (lock: WebLock | null) => lock);
    expect(seen).toBeNull();
    await lease.release();
    expect(await manager.request("a", { ifAvailable: true }, (lock) => lock?.name)).toBe("a");
  });

  it("steals: the holder's request rejects with an AbortError, and its signal aborts", async () => {
    let stolen: AbortSignal | null = null;
    const held = manager.request("a", async (lock) => {
      stolen = lock.signal;
      await new Promise(() => {});
    });
    const rejected = expect(held).rejects.toMatchObject({ name: "AbortError" });
    await expect.poll(() => stolen).not.toBeNull();
    expect(await webLocks(other).request("a", { steal: true }, () => "mine")).toBe("mine");
    await rejected;
    expect((stolen as unknown as AbortSignal).aborted).toBe(true);
  });

  it("rejects a request that waits with the reason of its signal", async () => {
    const lease = await other.acquire("a");
    const controller = new AbortController();
    const waiting = manager.request("a", { signal: controller.signal }, () => "never");
    const reason = new Error("enough");
    const rejected = expect(waiting).rejects.toBe(reason);
    await expect.poll(async () => (await other.inspect("a"))?.waiters?.length).toBe(1);
    controller.abort(reason);
    await rejected;
    await lease.release();
    await expect(manager.request("a", { signal: AbortSignal.abort(reason) }, () => 1)).rejects.toBe(reason);
  });

  it.each([
    ["-a", {}, "NotSupportedError"],
    ["a", { steal: true, ifAvailable: true }, "NotSupportedError"],
    ["a", { steal: true, mode: "shared" }, "NotSupportedError"],
    ["a", { ifAvailable: true, signal: new AbortController().signal }, "NotSupportedError"],
    ["a", { mode: "foo" }, "TypeError"],
    ["a", { signal: 5 }, "TypeError"],
    ["a", 5, "TypeError"],
  ])("rejects %j with %j", async (name, options, error) => {
    const asked = manager.request(name, options as object, () => 1);
    await expect(asked).rejects.toMatchObject({ name: error });
  });

  it("rejects a missing callback", async () => {
    await expect((manager.request as (name: string) => Promise<void>)("a")).rejects.toBeInstanceOf(TypeError);
  });
});

describe("query", () => {
  it("lists what is held and what waits, with the labels of the processes", async () => {
    const lease = await other.acquire("a");
    const waiting = manager.request("a", { mode: "shared" }, () => "in");
    await expect
      .poll(async () => (await manager.query()).pending)
      .toEqual([{ name: "a", mode: "shared", clientId: "here" }]);
    expect((await manager.query()).held).toEqual([{ name: "a", mode: "exclusive", clientId: "there" }]);
    await lease.release();
    expect(await waiting).toBe("in");
  });
});

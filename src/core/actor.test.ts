// Actors in one process: scopes inside each other, re-entries, and what becomes of them when a lease is lost or locks are closed.

import { expect, test } from "vitest";
import { DeadlockError, type Lease, LockLostError } from "../index.ts";
import { refusal, within, world } from "./fixture.ts";

test("an acquire of the same key in a sibling's scope waits instead of being refused", async () => {
  const { system, locks } = world();
  const mine = locks();
  const order: string[] = [];
  await within(
    system,
    5_000,
    mine.using("outer", async () => {
      const sibling = (name: string): Promise<void> =>
        mine.using("k", async () => {
          order.push(`${name} in`);
          await new Promise<void>((resolve) => void system.after(50, resolve));
          order.push(`${name} out`);
        });
      const first = sibling("a");
      await system.yield();
      await Promise.all([first, sibling("b")]);
    }),
  );
  expect(order).toEqual(["a in", "a out", "b in", "b out"]);
});

test("a key held in a scope around the inner one is known there; after the inner scope has ended too", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("outer", async () => {
    let inner: Lease | null = null;
    await mine.using("inner", async (lease) => {
      inner = lease;
      expect(await refusal(mine.acquire("outer"))).toBeInstanceOf(DeadlockError);
      await lease.release();
      // The inner scope is none any more; the one around it still is.
      expect(await refusal(mine.acquire("outer"))).toBeInstanceOf(DeadlockError);
      expect(await mine.using("inner", () => "free again")).toBe("free again");
    });
    expect(await mine.tryAcquire("outer", { within: inner as unknown as Lease })).toBeNull();
  });
});

test("a re-entry is lost with the section: signal, held and using all say so (P6)", async () => {
  const { system, door, locks } = world();
  const mine = locks({ ttl: 300 });
  const seen: unknown[] = [];
  const running = mine.using("k", async (outer) => {
    door.faults.set("renew", "hang");
    const error = await refusal(
      mine.using("k", { reentrant: true }, async (lease) => {
        lease.signal.addEventListener("abort", () => seen.push(lease.signal.reason));
        await new Promise<void>((resolve) => void system.after(400, resolve));
        expect(lease.held).toBe(false);
        expect(() => lease.assertHeld()).toThrow(LockLostError);
        return "anyway";
      }),
    );
    expect(error).toBeInstanceOf(LockLostError);
    expect(outer.held).toBe(false);
    throw error;
  });
  const error = await refusal(within(system, 2_000, running));
  expect(seen).toEqual([error]);
});

test("several keys are entered again when scopes around hold all of them, each with its fence", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using(["a", "b"], async (ab) => {
    await mine.using("c", async (c) => {
      await mine.using(["c", "a"], { reentrant: true }, (lease) => {
        expect(lease.keys).toEqual(["a", "c"]);
        expect([lease.fenceOf("a"), lease.fenceOf("c")]).toEqual([ab.fenceOf("a"), c.fence]);
        expect(() => lease.fenceOf("b")).toThrow(/not of "b"/);
        expect(() => lease.fence).toThrow(/fenceOf/);
        expect(lease.signal.aborted).toBe(false);
        expect(lease.toJSON()).toMatchObject({ keys: ["a", "c"], held: true, mode: "exclusive" });
      });
      expect(ab.held && c.held).toBe(true);
    });
  });
  expect(await mine.inspect("a")).toBeNull();
});

test("a lease let go of under a re-entry is not handed on before the re-entry has let go (P1)", async () => {
  const { system, locks } = world();
  const mine = locks();
  const outer = await mine.acquire("k");
  const inner = await mine.acquire("k", { reentrant: true, within: outer });
  const next = mine.acquire("k");
  expect(await outer.release()).toBe(true);
  expect(await outer.release()).toBe(true);
  await system.advance(200);
  expect(inner.held).toBe(true);
  let granted = false;
  void next.then(() => {
    granted = true;
  });
  await system.settle();
  expect(granted).toBe(false);
  expect(await inner.release()).toBe(true);
  expect(await inner.release()).toBe(true);
  const lease = await within(system, 1_000, next);
  expect(lease.fence).toBeGreaterThan(inner.fence);
});

test("close ends a section whoever is inside", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const outer = await mine.acquire("k");
  const inner = await mine.acquire("k", { reentrant: true, within: outer });
  await outer.release();
  const closing = mine.close();
  expect(inner.signal.reason).toMatchObject({ reason: "closed" });
  await within(system, 1_100, closing);
  expect(inner.held).toBe(false);
  expect(await others().tryAcquire("k")).not.toBeNull();
});

test("once never enters again: what it would keep is another's", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("k", async () => {
    const error = await refusal(mine.once("k", { atLeast: 1_000, reentrant: true }, () => {}));
    expect(error).toBeInstanceOf(DeadlockError);
  });
});

test("keys of different locks have nothing to do with each other", async () => {
  const { locks, others } = world();
  const [mine, elsewhere] = [locks(), others({ namespace: "elsewhere" })];
  await mine.using("k", async () => {
    expect(await elsewhere.using("k", () => "fine")).toBe("fine");
  });
});

// The short way to a key that nobody else of the process wants: it must end like the long one, whatever
// happens to it.

import { expect, test } from "vitest";
import { LockAbortedError, LockTimeoutError, StoreUnavailableError } from "../errors.ts";
import { refusal, within, world } from "../fixture.ts";

test("a key that nobody else wants takes one attempt and one release", async () => {
  const { door, locks } = world();
  const mine = locks();
  await (await mine.acquire("k")).release();
  door.calls.length = 0;
  const lease = await mine.acquire("k");
  expect(lease.held).toBe(true);
  expect(await lease.release()).toBe(true);
  expect(door.calls).toEqual(["attempt", "release"]);
});

test("a busy key is waited for under the same request, in the order of the store's queue (P12)", async () => {
  const { door, system, locks, others } = world();
  const [mine, theirs] = [locks(), others()];
  await (await mine.acquire("k")).release();
  const holder = await theirs.acquire("k");
  const waiting = mine.acquire("k");
  await system.advance(10);
  const later = others({ label: "later" }).acquire("k");
  await system.advance(10);
  await holder.release();
  expect((await within(system, 1_000, waiting)).held).toBe(true);
  expect((await theirs.inspect("k"))?.waiters?.map(({ label }) => label)).toEqual(["later"]);
  expect(door.count("abandon")).toBe(0);
  later.catch(() => {});
});

test("a second task that comes while the first attempt is under way waits behind it", async () => {
  const { door, system, locks } = world();
  const mine = locks({ handoff: 0 });
  await (await mine.acquire("k")).release();
  door.faults.set("attempt", { replyAfterMs: 50 });
  const order: string[] = [];
  const use = async (name: string): Promise<void> => {
    const lease = await mine.acquire("k");
    order.push(name);
    await lease.release();
  };
  await within(system, 2_000, Promise.all([use("first"), use("second"), use("third")]));
  expect(order).toEqual(["first", "second", "third"]);
});

test("a second waiter gets the key by hand-off from one that was alone with it", async () => {
  const { door, locks } = world();
  const mine = locks();
  await (await mine.acquire("k")).release();
  const first = await mine.acquire("k");
  const second = mine.acquire("k");
  door.calls.length = 0;
  await first.release();
  expect((await second).fence).toBeGreaterThan(first.fence);
  expect(door.calls).toEqual([]);
});

test("an answer after the deadline of its call is ignored, and the next attempt adopts the grant (P8)", async () => {
  const { door, system, locks, others } = world();
  const mine = locks();
  await (await mine.acquire("k")).release();
  door.faults.set("attempt", { replyAfterMs: 3_000 });
  const waiting = mine.acquire("k");
  await system.advance(2_005);
  door.faults.delete("attempt");
  const lease = await within(system, 500, waiting);
  expect(lease.held).toBe(true);
  await system.advance(2_000);
  expect(lease.held).toBe(true);
  expect((await others().inspect("k"))?.holders.length).toBe(1);
});

test("a wait that is shorter than a call ends with that call, not with another one (P13)", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  await (await mine.acquire("k")).release();
  door.faults.set("attempt", "hang");
  const sinceMs = system.monoMs();
  const error = await refusal(within(system, 10_000, mine.acquire("k", { wait: 100 })));
  expect(error).toBeInstanceOf(StoreUnavailableError);
  expect(system.monoMs() - sinceMs).toBeLessThan(2_100);
});

test("a busy key is given up at the end of the wait, and leaves the queue (P13, P16)", async () => {
  const { system, locks, others } = world();
  const [mine, theirs] = [locks(), others()];
  await (await mine.acquire("k")).release();
  await theirs.acquire("k");
  const events: string[] = [];
  mine.on("waiting", () => events.push("waiting"));
  mine.on("timeout", () => events.push("timeout"));
  expect(await refusal(within(system, 2_000, mine.acquire("k", { wait: 300 })))).toBeInstanceOf(
    LockTimeoutError,
  );
  await system.advance(50);
  expect(events).toEqual(["waiting", "timeout"]);
  expect((await theirs.inspect("k"))?.waiters).toEqual([]);
});

test("close rejects an attempt that is alone, and what it was granted goes back (P16)", async () => {
  const { door, system, locks, others } = world();
  const mine = locks();
  await (await mine.acquire("k")).release();
  door.faults.set("attempt", { replyAfterMs: 50 });
  const waiting = mine.acquire("k");
  await system.settle();
  const closing = mine.close();
  expect(await refusal(waiting)).toBeInstanceOf(LockAbortedError);
  await within(system, 5_000, closing);
  expect(await others().inspect("k")).toBeNull();
});

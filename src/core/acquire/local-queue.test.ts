import { expect, test } from "vitest";
import type { Lease } from "../api.ts";
import { LockAbortedError, LockTimeoutError, StoreUnavailableError } from "../errors.ts";
import { refusal, within, world } from "../fixture.ts";
import type { AcquireOptions } from "../options.ts";

test("a thousand waiting tasks cost the store one waiter", async () => {
  const { system, locks, others } = world();
  const holder = await others().acquire("k");
  const mine = locks();
  const waits = Array.from({ length: 1_000 }, () => mine.acquire("k", { wait: Number.POSITIVE_INFINITY }));
  await system.advance(100);
  const info = await others().inspect("k");
  expect(info?.waiters).toHaveLength(1);
  await holder.release();
  for (const wait of waits) await (await within(system, 1_000, wait)).release();
  expect(await others().inspect("k")).toBeNull();
});

test("tasks of one process are served in the order they came (P12)", async () => {
  const { system, locks } = world();
  const mine = locks();
  const first = await mine.acquire("k");
  const order: number[] = [];
  const all = Array.from({ length: 20 }, (_, i) =>
    mine.using("k", () => {
      order.push(i);
    }),
  );
  await first.release();
  await within(system, 1_000, Promise.all(all));
  expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test("a hand-off inside the process makes no call to the store and has a larger fence (P3)", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const first = await mine.acquire("k");
  const second = mine.acquire("k");
  await system.advance(1);
  const before = door.calls.length;
  await first.release();
  const lease = await second;
  expect(door.calls.length).toBe(before);
  expect(lease.fence).toBeGreaterThan(first.fence);
  expect(first.held).toBe(false);
  expect(lease.held).toBe(true);
});

test("after its slice a lease goes back to the store, so that other processes get their turn", async () => {
  const { system, locks, others } = world();
  const mine = locks({ handoff: "10ms" });
  const theirs = others();
  let served = 0;
  let stop = false;
  const worker = async (): Promise<void> => {
    while (!stop) {
      await mine.using("k", () => {
        served += 1;
        return new Promise<void>((resolve) => system.after(1, resolve));
      });
    }
  };
  const workers = Array.from({ length: 5 }, worker);
  await system.advance(5);
  const since = system.monoMs();
  const lease = await within(system, 1_000, theirs.acquire("k"));
  expect(system.monoMs() - since).toBeLessThan(30);
  await system.advance(50);
  const meanwhile = served;
  await system.advance(50);
  expect(served).toBe(meanwhile);
  stop = true;
  await lease.release();
  await within(system, 1_000, Promise.all(workers));
});

test("handoff: 0 sends every section through the store", async () => {
  const { system, door, locks } = world();
  const mine = locks({ handoff: 0 });
  const first = await mine.acquire("k");
  const second = mine.acquire("k");
  await system.settle();
  await first.release();
  await within(system, 1_000, second);
  expect(door.count("release")).toBe(1);
});

test("a lease passes only to a task that wants the same: mode, permits and ttl", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const first = await mine.acquire("k", { ttl: "30s" });
  const second = mine.acquire("k", { ttl: "10s" });
  await system.settle();
  await first.release();
  const lease = await within(system, 1_000, second);
  expect(door.count("release")).toBe(1);
  expect(lease.remaining).toBeLessThanOrEqual(10_000);
});

test("a head that times out passes its place in the store's queue on", async () => {
  const { system, locks, others } = world();
  const theirs = others();
  const holder = await theirs.acquire("k");
  const mine = locks();
  const hasty = mine.acquire("k", { wait: 100 });
  const patient = mine.acquire("k", { wait: "10s" });
  hasty.catch(() => {});
  await system.advance(10);
  const late = theirs.acquire("k", { wait: "10s", label: "late" });
  late.catch(() => {});
  await system.advance(200);
  expect(await refusal(hasty)).toBeInstanceOf(LockTimeoutError);
  const order: string[] = [];
  void patient.then(() => order.push("patient"));
  void late.then(() => order.push("late"));
  await holder.release();
  const lease = await within(system, 1_000, patient);
  await lease.release();
  await within(system, 1_000, late);
  expect(order).toEqual(["patient", "late"]);
});

test("a timeout names the holder, how long it holds and how long was waited (P17)", async () => {
  const { system, locks, others } = world();
  const holder = await others({ label: "nightly@db1" }).acquire("k");
  const error = await refusal(within(system, 1_000, locks().acquire("k", { wait: 500 })));
  expect(error).toBeInstanceOf(LockTimeoutError);
  expect(error).toMatchObject({ code: "ERR_LOCK_TIMEOUT", key: "k", retryable: true });
  expect((error as LockTimeoutError).holders[0]).toMatchObject({
    label: "nightly@db1",
    fence: holder.fence,
  });
  expect((error as LockTimeoutError).waitedMs).toBeGreaterThanOrEqual(500);
  expect(error.message).toMatch(/nightly@db1/);
  expect(await others().inspect("k")).toMatchObject({ waiters: [] });
});

test("wait: 0 is one attempt that leaves no place in the queue", async () => {
  const { system, door, locks, others } = world();
  await others().acquire("k");
  const error = await refusal(within(system, 100, locks().acquire("k", { wait: 0 })));
  expect(error).toBeInstanceOf(LockTimeoutError);
  expect(door.count("attempt")).toBe(1);
  expect((await others().inspect("k"))?.waiters).toEqual([]);
});

test("an abort ends the wait at once, and a place in the queue is given up", async () => {
  const { system, locks, others } = world();
  await others().acquire("k");
  const controller = new AbortController();
  const waiting = locks().acquire("k", { signal: controller.signal });
  waiting.catch(() => {});
  await system.advance(100);
  const at = system.monoMs();
  controller.abort(new Error("enough"));
  const error = await refusal(waiting);
  expect(system.monoMs()).toBe(at);
  expect(error).toBeInstanceOf(LockAbortedError);
  expect(error.cause).toMatchObject({ message: "enough" });
  await system.settle();
  expect((await others().inspect("k"))?.waiters).toEqual([]);
});

test("an aborted signal refuses before anything is sent", async () => {
  const { door, locks } = world();
  expect(await refusal(locks().acquire("k", { signal: AbortSignal.abort() }))).toBeInstanceOf(
    LockAbortedError,
  );
  expect(door.calls).toEqual([]);
});

test("a grant that races with an abort is given back", async () => {
  const { system, door, locks, others } = world();
  door.faults.set("attempt", { replyAfterMs: 50 });
  const controller = new AbortController();
  const waiting = locks().acquire("k", { signal: controller.signal });
  waiting.catch(() => {});
  await system.advance(20);
  controller.abort();
  expect(await refusal(waiting)).toBeInstanceOf(LockAbortedError);
  await system.advance(100);
  expect(await others().inspect("k")).toBeNull();
});

test("acquire settles within wait + one call timeout on a frozen store, and says so (P13)", async () => {
  const { system, door, locks } = world();
  door.faults.set("attempt", "hang");
  const start = system.monoMs();
  const error = await refusal(within(system, 20_000, locks().acquire("k", { wait: "3s" })));
  expect(error).toBeInstanceOf(StoreUnavailableError);
  expect(system.monoMs() - start).toBeGreaterThanOrEqual(3_000);
  expect(system.monoMs() - start).toBeLessThanOrEqual(5_010);
});

test("timed out but succeeded is adopted by the next attempt of the same id (P8)", async () => {
  const { system, door, locks, others } = world();
  door.faults.set("attempt", "lose-reply");
  const acquired = locks().acquire("k", { wait: "10s" });
  await system.advance(1_000);
  expect((await others().inspect("k"))?.holders).toHaveLength(1);
  door.faults.clear();
  const lease = await within(system, 5_000, acquired);
  expect((await others().inspect("k"))?.holders).toHaveLength(1);
  expect(lease.remaining).toBeGreaterThan(28_000);
});

test("tryAcquire whose reply is lost is never held, and is undone (P8)", async () => {
  const { system, door, locks, others } = world();
  door.faults.set("attempt", "lose-reply");
  const error = await refusal(within(system, 5_000, locks().tryAcquire("k")));
  expect(error).toBeInstanceOf(StoreUnavailableError);
  await system.settle();
  expect(await others().inspect("k")).toBeNull();
});

test("a lost push costs one heartbeat at most (P11)", async () => {
  const { system, door, locks, others } = world();
  const holder = await others().acquire("k");
  door.faults.set("subscribe", "fail");
  const waiting = locks().acquire("k");
  await system.advance(1_000);
  const at = system.monoMs();
  await holder.release();
  await within(system, 1_000, waiting);
  expect(system.monoMs() - at).toBeLessThanOrEqual(260);
});

test("a push only wakes: the attempt that follows it grants the full ttl (P2)", async () => {
  const { system, door, locks, others } = world();
  const holder = await others().acquire("k");
  const waiting = locks().acquire("k", { ttl: "30s" });
  await system.advance(600);
  const before = door.count("attempt");
  await holder.release();
  const lease = await within(system, 100, waiting);
  expect(door.count("attempt")).toBe(before + 1);
  expect(lease.remaining).toBeGreaterThan(29_900);
  await system.advance(1);
  expect(door.count("renew")).toBe(0);
});

test("a grant that follows a push is handed on within its slice", async () => {
  const { system, door, locks, others } = world();
  const holder = await others().acquire("k");
  const mine = locks({ handoff: "10ms" });
  const waits = Array.from({ length: 20 }, () => mine.acquire("k", { ttl: "30s" }));
  await system.advance(300);
  const released = door.count("release");
  await holder.release();
  const fences: bigint[] = [];
  for (const wait of waits.slice(0, 19)) {
    const lease = await within(system, 2, wait);
    fences.push(lease.fence);
    await system.advance(0.1);
    await lease.release();
  }
  expect(door.count("release")).toBe(released);
  expect(new Set(fences).size).toBe(19);
  const last = await within(system, 2, waits[19] as Promise<Lease>);
  expect(last.remaining).toBeGreaterThan(29_000);
});

test("an attempt that follows a push and fails is repeated (P8)", async () => {
  const { system, door, locks, others } = world();
  const holder = await others().acquire("k");
  const waiting = locks().acquire("k", { ttl: "30s" });
  await system.advance(300);
  door.faults.set("attempt", "fail");
  await holder.release();
  await system.advance(100);
  door.faults.clear();
  const lease = await within(system, 500, waiting);
  expect(lease.remaining).toBeGreaterThan(29_900);
});

test("the last try happens at the deadline", async () => {
  const { system, door, locks, others } = world();
  const holder = await others().acquire("k");
  door.faults.set("subscribe", "fail");
  const waiting = locks().acquire("k", { wait: 400 });
  await system.advance(300);
  await holder.release();
  const lease = await within(system, 200, waiting);
  expect(lease.held).toBe(true);
});

test("callers may name different limits, and each waits for its own (P1)", async () => {
  const { system, locks, others } = world();
  const [mine, theirs] = [locks(), others()];
  const first = await theirs.acquire("k", { limit: 2 });
  const second = await theirs.acquire("k", { limit: 2 });
  const third = await mine.acquire("k", { limit: 3 });
  expect((await mine.inspect("k"))?.limit).toBe(3);
  const narrow = mine.acquire("k", { limit: 2 });
  await system.settle();
  const lock = theirs.acquire("k");
  await system.advance(100);
  await first.release();
  await system.advance(100);
  expect((await mine.inspect("k"))?.waiters).toHaveLength(2);
  await second.release();
  await (await within(system, 2_000, narrow)).release();
  await third.release();
  expect((await within(system, 2_000, lock)).fence).toBeGreaterThan(third.fence);
  expect(await mine.tryAcquire("k", { limit: 9 })).toBeNull();
});

test("an actor that holds a lock is refused a semaphore of that key, and vice versa (P15)", async () => {
  const { locks } = world();
  const mine = locks();
  for (const [outer, inner] of [
    [{}, { limit: 3 }],
    [{ limit: 3 }, {}],
    [{ limit: 3, permits: 2 }, { limit: 2 }],
  ]) {
    await mine.using("k", outer as AcquireOptions, async () => {
      expect(await refusal(mine.acquire("k", inner))).toMatchObject({ code: "ERR_LOCK_DEADLOCK" });
    });
  }
  await mine.using("k", { limit: 3, permits: 2 }, () => mine.using("k", { limit: 4, permits: 2 }, () => {}));
});

test("readers share, a waiting writer is not starved by new readers, and readers come after it", async () => {
  const { system, locks } = world();
  const mine = locks();
  const reader1 = await mine.acquire("k", { mode: "shared" });
  const reader2 = await mine.acquire("k", { mode: "shared" });
  const writer = mine.acquire("k");
  await system.settle();
  const reader3 = mine.acquire("k", { mode: "shared" });
  await system.advance(300);
  const order: string[] = [];
  void writer.then(() => order.push("writer"));
  void reader3.then(() => order.push("reader3"));
  await reader1.release();
  await reader2.release();
  const lease = await within(system, 500, writer);
  await system.advance(300);
  expect(order).toEqual(["writer"]);
  await lease.release();
  await within(system, 500, reader3);
});

test("tryAcquire does not overtake tasks that wait", async () => {
  const { system, locks, others } = world();
  await others().acquire("k", { limit: 2 });
  const mine = locks();
  const large = mine.acquire("k", { limit: 2, permits: 2 });
  large.catch(() => {});
  await system.settle();
  expect(await mine.tryAcquire("k", { limit: 2 })).toBeNull();
  expect(await others().tryAcquire("k", { limit: 2 })).toBeNull();
});

test("close releases what is held, withdraws what waits and leaves no timer behind (P16)", async () => {
  const { system, locks, others } = world();
  const theirs = others();
  const held = await theirs.acquire("held elsewhere");
  const mine = locks();
  const lease = await mine.acquire("k");
  const waiting = mine.acquire("held elsewhere", { wait: Number.POSITIVE_INFINITY });
  waiting.catch(() => {});
  await system.advance(100);
  await within(system, 1_000, mine.close());
  expect(lease.held).toBe(false);
  expect(await refusal(waiting)).toBeInstanceOf(LockAbortedError);
  expect(await theirs.inspect("k")).toBeNull();
  expect((await theirs.inspect("held elsewhere"))?.waiters).toEqual([]);
  await held.release();
  await within(system, 1_000, theirs.close());
  expect(system.pendingTimers({ background: true })).toBe(0);
  expect(await refusal(mine.acquire("k"))).toBeInstanceOf(LockAbortedError);
});

test("close is bounded on a frozen store (P13)", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  await mine.acquire("k");
  for (const method of ["release", "abandon", "close"] as const) door.faults.set(method, "hang");
  await within(system, 8_000, mine.close());
});

test("a store that cannot be asked is retried within the wait", async () => {
  const { system, door, locks } = world();
  door.faults.set("attempt", "fail");
  const waiting = locks().acquire("k", { wait: "10s" });
  await system.advance(2_000);
  door.faults.clear();
  expect((await within<Lease>(system, 2_000, waiting)).held).toBe(true);
});

test("a signal that outlives many waits is left without listeners", async () => {
  const { locks } = world();
  const mine = locks();
  const controller = new AbortController();
  let listeners = 0;
  const { signal } = controller;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = ((...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  }) as typeof signal.addEventListener;
  signal.removeEventListener = ((...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  }) as typeof signal.removeEventListener;
  for (let i = 0; i < 100; i += 1) await mine.using("k", { signal }, () => {});
  expect(listeners).toBe(0);
});

test("a reader does not take over a turn that may have been granted before it asked (P3)", async () => {
  const { system, door, locks, others } = world();
  const mine = locks();
  door.faults.set("attempt", "lose-reply");
  const first = mine.acquire("k", { mode: "shared", wait: 100 });
  first.catch(() => {});
  await system.advance(50);
  const theirs = await others().acquire("k", { mode: "shared" });
  const second = mine.acquire("k", { mode: "shared", wait: "10s" });
  await system.advance(2_500);
  door.faults.clear();
  const lease = await within(system, 5_000, second);
  expect(lease.fence).toBeGreaterThan(theirs.fence);
});

test("a lease that was extended is not handed on to a task that asked for less", async () => {
  const { system, door, locks } = world();
  const mine = locks({ handoff: "1s" });
  const first = await mine.acquire("k", { ttl: "1s" });
  await first.extend("1m");
  const second = mine.acquire("k", { ttl: "1s" });
  await system.settle();
  await first.release();
  const lease = await within(system, 500, second);
  expect(door.count("release")).toBe(1);
  expect(lease.remaining).toBeLessThanOrEqual(1_000);
});

test("a thousand waits under one signal are one listener, and all end with it", async () => {
  const { system, locks, others } = world();
  await others().acquire("k");
  const mine = locks();
  const controller = new AbortController();
  const { signal } = controller;
  let [listeners, most] = [0, 0];
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = ((...args: Parameters<typeof add>) => {
    listeners += 1;
    most = Math.max(most, listeners);
    add(...args);
  }) as typeof signal.addEventListener;
  signal.removeEventListener = ((...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  }) as typeof signal.removeEventListener;
  const waits = Array.from({ length: 1_000 }, () => refusal(mine.acquire("k", { signal })));
  await system.settle();
  expect([listeners, most]).toEqual([1, 1]);
  controller.abort();
  for (const error of await Promise.all(waits)) expect(error).toBeInstanceOf(LockAbortedError);
});

for (const options of [{ mode: "shared" }, { limit: 200 }] as const) {
  const what = "limit" in options ? "permits" : "readers";

  test(`200 ${what} of one process need a few round trips, not 200 (P21)`, async () => {
    const { door, system, locks } = world();
    const mine = locks();
    await (await mine.acquire("other")).release();
    door.faults.set("attempt", { replyAfterMs: 10 });
    const all = Promise.all(Array.from({ length: 200 }, () => mine.acquire("k", options)));
    const leases = await within(system, 80, all);
    expect(new Set(leases.map((lease) => lease.fence)).size).toBe(200);
    await Promise.all(leases.map((lease) => lease.release()));
    expect(await mine.inspect("k")).toBeNull();
  });

  test(`${what} that wait for another process have one place in its store's queue`, async () => {
    const { system, locks, others } = world();
    const [mine, theirs] = [locks(), others()];
    const holder = await theirs.acquire("k");
    const all = Promise.all(Array.from({ length: 200 }, () => mine.acquire("k", options)));
    await system.advance(1_000);
    expect((await theirs.inspect("k"))?.waiters).toHaveLength(1);
    await holder.release();
    expect(await within(system, 2_000, all)).toHaveLength(200);
  });
}

test("a reader that gives up while it is asked for beside others leaves nothing behind (P16)", async () => {
  const { door, system, locks, others } = world();
  const mine = locks();
  const first = await mine.acquire("k", { mode: "shared" });
  door.faults.set("attempt", { replyAfterMs: 50 });
  const controller = new AbortController();
  const head = mine.acquire("k", { mode: "shared" });
  const second = mine.acquire("k", { mode: "shared", signal: controller.signal });
  await system.advance(10);
  controller.abort();
  expect((await refusal(second)).name).toBe("LockAbortedError");
  const lease = await within(system, 1_000, head);
  await system.advance(500);
  expect((await others().inspect("k"))?.holders).toHaveLength(2);
  await Promise.all([first.release(), lease.release()]);
  expect(await others().inspect("k")).toBeNull();
});

// close({ drain }) in virtual time, step by step: what may finish, what is notified to stop and when, and
// that no key goes to another process under a callback that has not been notified (P1, P16).

import { expect, test } from "vitest";
import type { Lease } from "./api.ts";
import { InvalidArgumentError, LockAbortedError, LockLostError } from "./errors.ts";
import { refusal, within, world } from "./fixture.ts";

/** A promise that a test settles. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

async function closedError(promise: Promise<unknown>): Promise<LockLostError> {
  const error = await refusal(promise);
  expect(error).toBeInstanceOf(LockLostError);
  expect((error as LockLostError).reason).toBe("closed");
  return error as LockLostError;
}

/** Starts a callback and waits until it runs. */
async function running(
  start: (fn: (lease: Lease) => Promise<unknown>) => Promise<unknown>,
): Promise<{ readonly lease: Lease; readonly call: Promise<unknown>; finish(value?: unknown): void }> {
  let finish: (value?: unknown) => void = () => {};
  const end = new Promise<unknown>((resolve) => {
    finish = resolve;
  });
  const began = gate();
  let lease: Lease | null = null;
  const call = start((one) => {
    lease = one;
    began.open();
    return end;
  });
  call.catch(() => {});
  await began.opened;
  return { lease: lease as unknown as Lease, call, finish };
}

test("a running callback of using keeps its lease and finishes within drain (P1)", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", { ttl: 600 }, fn));
  let closed = false;
  const closing = mine.close({ drain: "5s" }).then(() => {
    closed = true;
  });
  await system.advance(4_000);
  expect({ held: work.lease.held, notified: work.lease.signal.aborted, closed }).toEqual({
    held: true,
    notified: false,
    closed: false,
  });
  expect(await others().tryAcquire("k")).toBeNull();
  work.finish("done");
  expect(await within(system, 100, work.call)).toBe("done");
  await within(system, 100, closing);
  expect(await others().inspect("k")).toBeNull();
});

test("after drain a callback is notified, its call rejects, and then the key is released (P1)", async () => {
  const { system, door, locks, others } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", fn));
  const seen: string[] = [];
  work.lease.signal.addEventListener("abort", () =>
    seen.push(`notified, releases: ${door.count("release")}`),
  );
  work.call.catch(() => seen.push(`rejected, releases: ${door.count("release")}`));
  const closing = mine.close({ drain: 2_000 });
  await system.advance(1_999);
  expect({ seen, held: work.lease.held }).toEqual({ seen: [], held: true });
  await within(system, 100, closing);
  expect(seen).toEqual(["notified, releases: 0", "rejected, releases: 0"]);
  expect(await closedError(work.call)).toBe(work.lease.signal.reason);
  expect(work.lease.held).toBe(false);
  expect(await others().tryAcquire("k")).not.toBeNull();
});

test("once is drained as using is, and a key that it keeps stays taken", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const work = await running((fn) => mine.once("k", { atLeast: "1m" }, fn));
  await within(system, 600, mine.close({ drain: 500 }));
  await closedError(work.call);
  expect(await others().once("k", { atLeast: 1_000 }, () => 1)).toEqual({ ran: false });
});

test("the default of drain is 10 seconds", async () => {
  const { system, locks } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", fn));
  const closing = mine[Symbol.asyncDispose]();
  await system.advance(9_990);
  expect(work.lease.signal.aborted).toBe(false);
  await within(system, 100, closing);
  await closedError(work.call);
});

test("drain: 0 aborts at once", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", fn));
  const plain = await mine.acquire("p");
  const since = system.monoMs();
  const closing = mine.close({ drain: 0 });
  expect([work.lease.signal.aborted, plain.signal.aborted]).toEqual([true, true]);
  await closing;
  expect(system.monoMs()).toBe(since);
  await closedError(work.call);
  expect([plain.held, work.lease.held]).toEqual([false, false]);
  expect(system.pendingTimers({ background: true })).toBe(0);
  for (const key of ["k", "p"]) expect(await others().inspect(key)).toBeNull();
});

test("a plain lease is notified at once and kept until its owner releases it", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const lease = await mine.acquire("k", { ttl: 300 });
  const closing = mine.close();
  expect(lease.signal.reason).toMatchObject({ code: "ERR_LOCK_LOST", reason: "closed" });
  await system.advance(900);
  expect(lease.held).toBe(true);
  expect(await others().tryAcquire("k")).toBeNull();
  expect(await lease.release()).toBe(true);
  const since = system.monoMs();
  await within(system, 100, closing);
  expect(system.monoMs() - since).toBeLessThan(10);
});

test("a plain lease that nobody releases goes back after a second, or after a shorter drain", async () => {
  for (const [drain, ms] of [
    ["10s", 1_000],
    ["200ms", 200],
  ] as const) {
    const { system, locks, others } = world();
    const mine = locks();
    const reasons: string[] = [];
    mine.on("lost", ({ reason }) => reasons.push(reason));
    const lease = await mine.tryAcquire("k");
    const closing = mine.close({ drain });
    await system.advance(ms - 10);
    expect(lease?.held).toBe(true);
    await within(system, 100, closing);
    expect(lease?.held).toBe(false);
    expect(() => lease?.assertHeld()).toThrow(lease?.signal.reason as Error);
    expect(await lease?.release()).toBe(false);
    expect(reasons).toEqual(["closed"]);
    expect(await others().inspect("k")).toBeNull();
  }
});

test("calls are refused until drain ends, except those nested in a running callback", async () => {
  const { system, locks, others } = world();
  const theirs = others();
  const foreign = await theirs.acquire("foreign");
  const mine = locks();
  const [nest, nested] = [gate(), gate()];
  const outcomes: string[] = [];
  const work = mine.using("k", async () => {
    const waiting = mine.acquire("foreign", { wait: "1m" });
    await nest.opened;
    await mine.using("inner", async () => {
      outcomes.push((await mine.inspect("inner")) === null ? "free" : "held");
    });
    outcomes.push(String((await mine.tryAcquire("tried"))?.held));
    const lease = await waiting;
    outcomes.push(String(lease.signal.aborted));
    await lease.release();
    nested.open();
    return "done";
  });
  const outside = mine.acquire("foreign", { wait: "1m" });
  outside.catch(() => {});
  await system.advance(100);
  const closing = mine.close();
  expect(await refusal(outside)).toBeInstanceOf(LockAbortedError);
  for (const call of [mine.acquire("x"), mine.tryAcquire("x"), mine.using("x", () => 1), mine.inspect("x")])
    expect(await refusal(call)).toBeInstanceOf(LockAbortedError);
  expect(() => mine.elect("boss")).toThrow(LockAbortedError);
  nest.open();
  await system.advance(200);
  await foreign.release();
  await within(system, 1_000, nested.opened);
  expect(await within(system, 100, work)).toBe("done");
  expect(outcomes).toEqual(["held", "true", "false"]);
  await within(system, 1_100, closing);
  for (const key of ["k", "inner", "tried", "foreign"]) expect(await theirs.inspect(key)).toBeNull();
});

test("nested calls that still wait when drain ends are refused", async () => {
  const { system, locks, others } = world();
  await others().acquire("foreign");
  const mine = locks();
  const outcomes: string[] = [];
  const work = mine.using("k", async () => {
    const error = await refusal(mine.acquire("foreign", { wait: "1m" }));
    outcomes.push(error.name, (await refusal(mine.acquire("x"))).name);
  });
  work.catch(() => {});
  await system.advance(100);
  await within(system, 700, mine.close({ drain: 500 }));
  await closedError(work);
  expect(outcomes).toEqual(["LockAbortedError", "LockAbortedError"]);
  expect((await others().inspect("foreign"))?.waiters).toEqual([]);
});

test("a plain lease that outlives its callback is notified when that callback ends", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  let inner: Lease | null = null;
  const end = gate();
  const work = mine.using("k", async () => {
    inner = await mine.acquire("inner");
    await end.opened;
  });
  await system.settle();
  const lease = inner as unknown as Lease;
  const closing = mine.close();
  await system.advance(3_000);
  expect({ notified: lease.signal.aborted, held: lease.held }).toEqual({ notified: false, held: true });
  end.open();
  await within(system, 100, work);
  expect({ notified: lease.signal.aborted, held: lease.held }).toEqual({ notified: true, held: true });
  await within(system, 1_100, closing);
  expect(await others().inspect("inner")).toBeNull();
});

for (const call of ["tryAcquire", "once", "acquire without a wait", "acquire"] as const) {
  test(`${call} in flight is undone: nothing stays locked and no callback starts (P16)`, async () => {
    const { system, door, locks, others } = world();
    const mine = locks();
    await mine.inspect("k");
    door.faults.set("attempt", { replyAfterMs: 1_000 });
    let ran = false;
    const calls = {
      tryAcquire: () => mine.tryAcquire("k"),
      once: () => mine.once("k", { atLeast: "1m" }, () => (ran = true)),
      "acquire without a wait": () => mine.acquire("k", { wait: 0 }),
      acquire: () => mine.acquire("k"),
    };
    const started = calls[call]();
    started.catch(() => {});
    await system.advance(100);
    expect((await others().inspect("k"))?.holders).toHaveLength(1);
    const closing = mine.close();
    expect(await refusal(started)).toBeInstanceOf(LockAbortedError);
    await within(system, 500, closing);
    await system.advance(5_000);
    expect(ran).toBe(false);
    // What once had been granted stays taken for atLeast, but nobody holds it.
    const holders = (await others().inspect("k"))?.holders ?? [];
    expect(holders.map((holder) => holder.kept)).toEqual(call === "once" ? [true] : []);
  });
}

test("a grant whose call has not continued yet is undone too", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  await mine.inspect("k");
  let ran = false;
  const calls = [mine.using("k", () => (ran = true)), mine.acquire("p"), mine.tryAcquire("t")];
  mine.on("acquired", () => void mine.close());
  const results = await within(system, 2_000, Promise.allSettled(calls));
  expect(results.map((result) => result.status)).toEqual(["rejected", "rejected", "rejected"]);
  for (const result of results)
    expect((result as PromiseRejectedResult).reason).toBeInstanceOf(LockAbortedError);
  await within(system, 2_000, mine.close());
  expect(ran).toBe(false);
  for (const key of ["k", "p", "t"]) expect(await others().inspect(key)).toBeNull();
});

test("several keys that are taken one by one are undone when close comes between (P9)", async () => {
  const { system, door, locks, others } = world({ kinds: ["exclusive"] });
  const mine = locks();
  await mine.inspect("k");
  door.faults.set("attempt", { replyAfterMs: 100 });
  for (const wait of [0, 5_000]) {
    const started = mine.acquire(["a", "b"], { wait });
    started.catch(() => {});
    await system.advance(150);
    if (wait === 0) await within(system, 500, started).then((lease) => lease.release());
    else {
      const closing = mine.close();
      expect(await refusal(within(system, 500, started))).toBeInstanceOf(LockAbortedError);
      await within(system, 500, closing);
    }
    for (const key of ["a", "b"]) expect(await others().inspect(key)).toBeNull();
  }
});

test("close while the store opens: calls are refused at once and what opens late is closed", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  door.opensAfterMs = 1_000;
  const calls = [mine.acquire("k"), mine.tryAcquire("k"), mine.inspect("k")];
  for (const call of calls) call.catch(() => {});
  await system.advance(100);
  const since = system.monoMs();
  const closing = mine.close();
  for (const call of calls) expect(await refusal(call)).toBeInstanceOf(LockAbortedError);
  expect(system.monoMs()).toBe(since);
  await within(system, 2_000, closing);
  expect(door.count("close")).toBe(1);
  expect(door.count("attempt")).toBe(0);
});

test("the signal of lead aborts at once, and the key is kept until lead returns", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  let term: Lease | null = null;
  const end = gate();
  const election = mine.elect("boss", (lease) => {
    term = lease;
    return end.opened;
  });
  await system.advance(50);
  const lease = term as unknown as Lease;
  const closing = mine.close();
  expect(lease.signal.reason).toMatchObject({ code: "ERR_LOCK_LOST", reason: "closed" });
  expect(election.isLeader).toBe(false);
  await system.advance(5_000);
  expect(await others().tryAcquire("boss")).toBeNull();
  end.open();
  await within(system, 100, Promise.all([closing, election.closed]));
  expect(await others().inspect("boss")).toBeNull();
});

test("a lead that does not return loses its key when drain ends; closed waits for it", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const end = gate();
  const election = mine.elect("boss", async () => {
    await end.opened;
    throw new Error("late");
  });
  await system.advance(50);
  await within(system, 2_100, mine.close({ drain: "2s" }));
  expect(await others().tryAcquire("boss")).not.toBeNull();
  let closed = false;
  void election.close().then(() => (closed = true));
  await system.settle();
  expect(closed).toBe(false);
  end.open();
  await system.settle();
  expect(closed).toBe(true);
});

test("close inside a callback does not wait for that callback", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const other = await running((fn) => mine.using("other", fn));
  let order = "";
  const work = mine.using("k", async (lease) => {
    await mine.using("inner", async () => {
      await mine.close();
      order += "closed ";
    });
    order += `held ${lease.held}`;
    return "done";
  });
  await system.advance(500);
  expect(order).toBe("");
  other.finish();
  expect(await within(system, 500, work)).toBe("done");
  expect(order).toBe("closed held true");
  await within(system, 100, mine.close());
  expect(system.pendingTimers({ background: true })).toBe(0);
  expect(await others().inspect("k")).toBeNull();
});

test("late rejections of callbacks that outlive drain are handled", async () => {
  const { system, locks } = world();
  const mine = locks();
  const unhandled: unknown[] = [];
  const listener = (reason: unknown): unknown => unhandled.push(reason);
  process.on("unhandledRejection", listener);
  const end = gate();
  const work = mine.using("k", async () => {
    await end.opened;
    throw new Error("late");
  });
  const election = mine.elect("boss", async () => {
    await end.opened;
    throw new Error("late");
  });
  await system.advance(50);
  const closing = mine.close({ drain: 100 });
  await closedError(within(system, 200, work));
  await within(system, 200, closing);
  end.open();
  await refusal(election.closed);
  await system.advance(100);
  process.off("unhandledRejection", listener);
  expect(unhandled).toEqual([]);
});

test("close waits for a release that is under way (P16)", async () => {
  const { system, door, locks, others } = world();
  const mine = locks();
  const lease = await mine.acquire("k");
  door.faults.set("release", { replyAfterMs: 400 });
  const released = lease.release();
  let answered = false;
  void released.then(() => (answered = true));
  await within(system, 1_000, mine.close());
  expect(answered).toBe(true);
  expect(await others().inspect("k")).toBeNull();
});

test("close of a frozen store takes no longer than drain and two seconds (P13)", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", fn));
  await mine.acquire("p");
  for (const method of ["attempt", "renew", "release", "abandon", "close"] as const)
    door.faults.set(method, "hang");
  mine.tryAcquire("t").catch(() => {});
  await within(system, 5_050, mine.close({ drain: "3s" }));
  await closedError(work.call);
  expect(system.pendingTimers({ background: true })).toBe(0);
});

test("a second close joins the first, and a shorter drain shortens it", async () => {
  const { system, locks } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", fn));
  const first = mine.close({ drain: "1m" });
  await system.advance(20_000);
  expect(work.lease.signal.aborted).toBe(false);
  const second = mine.close();
  await system.advance(20_000);
  expect(work.lease.signal.aborted).toBe(false);
  await within(system, 200, mine.close({ drain: 100 }));
  await within(system, 10, Promise.all([first, second]));
  await closedError(work.call);
});

test("a callback that lost its lease before drain ends is notified nothing new", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const work = await running((fn) => mine.using("k", { ttl: 300 }, fn));
  door.faults.set("renew", "fail");
  const closing = mine.close({ drain: "2s" });
  await system.advance(1_000);
  expect(work.lease.signal.reason).toMatchObject({ reason: "expired" });
  await within(system, 1_200, closing);
  expect(await refusal(work.call)).toBe(work.lease.signal.reason);
});

test("a re-entry is drained with the section that it entered", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const signals: AbortSignal[] = [];
  const work = mine.using("k", () =>
    mine.using("k", { reentrant: true }, (lease) => {
      signals.push(lease.signal);
      return new Promise(() => {});
    }),
  );
  work.catch(() => {});
  await system.advance(10);
  const closing = mine.close({ drain: 500 });
  await system.advance(490);
  expect(signals[0]?.aborted).toBe(false);
  await within(system, 100, closing);
  expect(await closedError(work)).toBe(signals[0]?.reason);
  expect(await others().inspect("k")).toBeNull();
});

test("close refuses options that mean nothing", async () => {
  const { locks } = world();
  const mine = locks();
  for (const options of [{ drain: -1 }, { drain: "soon" }, { wait: 5 }, 5])
    expect(await refusal(mine.close(options as object))).toBeInstanceOf(InvalidArgumentError);
  expect(await mine.tryAcquire("k")).not.toBeNull();
});

// What happens at one open store: lines of waiting tasks, holds, and the handles made of them. `locks.ts` checks what the
// caller asked for and comes here; nothing here reads an option or a URL.

import { isAbortOf } from "./abort.ts";
import type { Actor } from "./actor.ts";
import { Alarm } from "./alarm.ts";
import { anyAnswer, type Caller, callTimeoutMs } from "./call.ts";
import { type DeadlockPlace, Detector } from "./deadlock.ts";
import type { Duration } from "./duration.ts";
import { type DeadlockError, LockError, LockLostError, StoreUnavailableError } from "./errors.ts";
import type { Events } from "./events.ts";
import type { Hold } from "./hold.ts";
import { Holds } from "./holds.ts";
import type { JoinedLease } from "./joined.ts";
import { showKey } from "./key.ts";
import { HeldLease, type LeaseKeeper } from "./lease.ts";
import { Line, type LineDeps, type Waited } from "./line.ts";
import { acquireEach, tryEach } from "./multi.ts";
import { Notes } from "./notes.ts";
import { type Defaults, readTtl, type Wish } from "./options.ts";
import { closedError, timeoutError } from "./refusals.ts";
import { SingleAttempt } from "./single-attempt.ts";
import type { Busy, OpenStore } from "./store.ts";
import type { System } from "./system.ts";
import { Task } from "./task.ts";
import { type ReleaseTrace, releasing, traced } from "./tracing.ts";
import { UnreleasedLeases } from "./unreleased.ts";

/**
 * How long `close` waits for a store that does not answer: for everything, for keys that go back, and at
 * least for its end.
 */
const CLOSE_MS = 2_000;
const GIVE_BACK_MS = 1_500;
const STORE_CLOSE_MS = 500;

/** For how long leases are handed on, and when a wait looks for circles. */
export type Patience = Pick<Defaults, "handoffMs" | "deadlockMs">;

/** Whether calls of this actor may go on while the locks are being closed. */
export type Admits = (actor: Actor) => boolean;

export class Keeper implements LeaseKeeper, LineDeps, DeadlockPlace {
  readonly store: OpenStore;
  readonly system: System;
  readonly caller: Caller;
  readonly holds: Holds;
  readonly handoffMs: number;
  readonly deadlines: Alarm<Task>;
  readonly #events: Events;
  readonly #notes: Notes;
  readonly #detector: Detector;
  readonly #deadlockMs: number | null;
  readonly #lines = new Map<string, Line>();
  readonly #admits: Admits;
  readonly #unreleased: UnreleasedLeases;
  /** Attempts in flight that no line knows of. */
  readonly #attempts = new Set<SingleAttempt>();
  /** Releases that the store has not answered. */
  #releasing = 0;
  #onReleased: () => void = () => {};
  #onHoldEnd: () => void = () => {};

  constructor(
    store: OpenStore,
    caller: Caller,
    system: System,
    events: Events,
    patience: Patience,
    admits: Admits,
  ) {
    this.store = store;
    this.system = system;
    this.#events = events;
    this.handoffMs = patience.handoffMs;
    this.#deadlockMs = patience.deadlockMs;
    this.#admits = admits;
    this.caller = caller;
    this.deadlines = new Alarm<Task>(system, (due) => {
      for (const task of due) task.expire();
    });
    this.holds = new Holds(store, this.caller, system, events, (hold) => this.#ended(hold));
    this.#notes = new Notes(store, caller, system, this.holds.renewal);
    this.#unreleased = new UnreleasedLeases({
      system,
      leases: () => this.leases(),
      release: (leases) => this.endLeases(leases),
    });
    this.#detector = Detector.of(system);
    this.#detector.open(this);
    store.onNotice?.((notice) => {
      if ("jumpMs" in notice) this.holds.renewal.clocks.jumped(notice);
      else events.emit("quarantine", () => notice);
    });
  }

  acquire(keys: readonly string[], wish: Wish, actor: Actor, sinceMs: number): Promise<HeldLease> {
    if (keys.length === 1 || this.store.guarantees.kinds.includes("multi")) {
      return this.#acquireLine(keys, wish, actor, sinceMs);
    }
    const one = (key: string): Promise<HeldLease> => this.#acquireLine([key], wish, actor, sinceMs);
    return acquireEach(keys, one).then((leases) => this.#join(leases, wish, actor));
  }

  async tryAcquire(keys: readonly string[], wish: Wish, actor: Actor): Promise<HeldLease | null> {
    if (keys.length > 1 && !this.store.guarantees.kinds.includes("multi")) {
      const leases = await tryEach(keys, async (key) => {
        const answer = await this.#once([key], wish, actor);
        return answer instanceof HeldLease ? answer : null;
      });
      return leases === null ? null : this.#join(leases, wish, actor);
    }
    const answer = await this.#once(keys, wish, actor);
    return answer instanceof HeldLease ? answer : null;
  }

  release(lease: HeldLease): Promise<boolean> {
    return traced(
      releasing,
      () => releaseTrace(lease),
      () => this.#release(lease),
    );
  }

  async #release(lease: HeldLease): Promise<boolean> {
    if (lease.sectionMs === 0) {
      this.holds.letGo(lease);
      return false;
    }
    lease.markReleased();
    const heldMs = this.system.monoMs() - lease.grantedAtMs;
    const hold = lease.holds[0] as Hold;
    const handedOff = lease.holds.length === 1 && hold.line !== null && hold.line.pass(hold);
    try {
      if (handedOff) return true;
      return await (lease.holds.length === 1 ? this.#releaseHold(hold) : this.#releaseAll(lease));
    } finally {
      this.#events.emit("released", () => ({ ...lease.toEvent(), heldMs, handedOff }));
    }
  }

  async extend(lease: HeldLease, ttl: Duration | undefined): Promise<void> {
    if (lease.sectionMs === 0) lease.assertHeld();
    await Promise.all(
      lease.holds.map(async (hold) => {
        const answer = await this.holds.renewal.now(hold, ttl === undefined ? hold.ttlMs : readTtl(ttl));
        if (answer.state === "renewed" || answer.state === "lost") return;
        throw new StoreUnavailableError(`the store could not extend the lease of ${showKey(lease.key)}`, {
          key: lease.key,
          cause: answer.state === "unknown" ? answer.cause : undefined,
        });
      }),
    );
    if (lease.sectionMs === 0) lease.assertHeld();
  }

  async verify(lease: HeldLease): Promise<boolean> {
    if (lease.sectionMs === 0) return false;
    const owned = await Promise.all(
      lease.holds.map((hold) =>
        this.caller.call(
          "verification",
          hold.request.keys[0],
          callTimeoutMs(hold.ttlMs),
          (io) => this.store.owns(hold.request, hold.cookie, io),
          anyAnswer,
        ),
      ),
    );
    lease.holds.forEach((hold, i) => {
      if (!owned[i]) this.holds.lost(hold, "gone");
    });
    return lease.sectionMs > 0;
  }

  /** Rejects calls that wait and undoes attempts in flight, except those of actors that may go on. */
  rejectCalls(): void {
    for (const line of [...this.#lines.values()]) line.rejectTasks(this.#admits);
    for (const attempt of [...this.#attempts]) {
      if (!this.#admits(attempt.actor)) attempt.stop(closedError(attempt.keys));
    }
  }

  leases(): HeldLease[] {
    return [...new Set(this.holds.all().flatMap((hold) => hold.lease ?? []))];
  }

  /** `listener` hears of every hold that ends from now on. */
  onHoldEnd(listener: () => void): void {
    this.#onHoldEnd = listener;
  }

  /** Marks these leases as lost, and releases them when those who were told have heard it. */
  endLeases(leases: readonly HeldLease[]): void {
    for (const lease of leases) this.loseToClose(lease);
    const holds = leases.flatMap((lease) => lease.holds);
    void this.system.yield().then(() => this.#releaseHolds(holds));
  }

  loseToClose(lease: HeldLease): void {
    lease.notifyClosed();
    this.holds.loseToClose(lease);
  }

  /** Releases what is left and closes the store. All calls were rejected and all holders told before. */
  async close(): Promise<void> {
    const endMs = this.system.monoMs() + CLOSE_MS;
    this.#releaseHolds(this.holds.all());
    await this.#released(GIVE_BACK_MS);
    this.holds.letGoOfRevoked();
    // A release that failed has become one of these.
    await this.holds.abandonment.settled(endMs - STORE_CLOSE_MS - this.system.monoMs());
    this.holds.stop();
    this.#unreleased.stop();
    this.deadlines.stop();
    this.#detector.close(this);
    // A store that cannot even close is left to itself: there is nothing more to give back.
    const leftMs = Math.max(STORE_CLOSE_MS, endMs - this.system.monoMs());
    await this.caller.call("close", undefined, leftMs, () => this.store.close()).catch(() => {});
  }

  #releaseHolds(holds: readonly Hold[]): void {
    for (const hold of holds) {
      if (hold.ended) continue;
      if (hold.lease === null) this.giveBack(hold);
      // What could not be told to the store is abandoned.
      else this.#releaseHold(hold).catch(() => {});
    }
  }

  /** Resolves when the store has answered every release, or after `ms`. */
  #released(ms: number): Promise<void> {
    if (this.#releasing === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.system.after(ms, resolve);
      this.#onReleased = () => {
        cancel();
        resolve();
      };
    });
  }

  lease(line: Line, hold: Hold, task: Waited, handedOff: boolean): HeldLease {
    const nowMs = this.system.monoMs();
    const lease = new HeldLease(this, [hold], task.wish, task.actor, nowMs);
    this.#unreleased.watch();
    if (handedOff) {
      this.holds.passed(hold);
    } else {
      hold.line = line;
      this.holds.started(hold);
    }
    this.#events.emit("acquired", () => ({ ...lease.toEvent(), waitedMs: nowMs - task.sinceMs, handedOff }));
    return lease;
  }

  giveBack(hold: Hold): void {
    this.holds.end(hold);
    this.holds.abandonment.add(hold.request);
  }

  held(): readonly Hold[] {
    return this.holds.all();
  }

  note(hold: Hold, note: string | null): Promise<void> {
    return this.#notes.set(hold, note);
  }

  deadlock(task: Task, { cycle }: DeadlockError): void {
    const waitedMs = this.system.monoMs() - task.sinceMs;
    const { keys, wish } = task;
    this.#events.emit("deadlock", () => ({
      key: keys[0] as string,
      keys,
      label: wish.label,
      waitedMs,
      cycle,
    }));
  }

  waiting(task: Task): void {
    this.#events.emit("waiting", () => ({
      key: task.keys[0] as string,
      keys: task.keys,
      label: task.wish.label,
    }));
  }

  idle(line: Line): void {
    if (this.#lines.get(line.name) === line) this.#lines.delete(line.name);
  }

  #acquireLine(keys: readonly string[], wish: Wish, actor: Actor, sinceMs: number): Promise<HeldLease> {
    if (wish.waitMs === 0) return this.#acquireNow(keys, wish, actor, sinceMs);
    if (!this.#admits(actor)) return Promise.reject(closedError(keys));
    const task = new Task(keys, wish, actor, sinceMs, sinceMs + wish.waitMs);
    const entered = this.#line(keys).enter(task);
    if (this.#deadlockMs !== null && task.pending) this.#detector.waits(task, this, this.#deadlockMs);
    return entered;
  }

  async #acquireNow(keys: readonly string[], wish: Wish, actor: Actor, sinceMs: number): Promise<HeldLease> {
    const answer = await this.#once(keys, wish, actor);
    if (answer instanceof HeldLease) return answer;
    throw timeoutError(keys, Math.round(this.system.monoMs() - sinceMs), answer, 0);
  }

  /** One attempt: a lease, or who holds it. */
  async #once(keys: readonly string[], wish: Wish, actor: Actor): Promise<HeldLease | Pick<Busy, "holders">> {
    if (!this.#admits(actor)) throw closedError(keys);
    const line = this.#line(keys);
    if (line.busyFor(wish)) return { holders: line.ownHolders() };
    const sinceMs = this.system.monoMs();
    const attempt = new SingleAttempt(this, keys, wish, actor);
    this.#attempts.add(attempt);
    try {
      const answer = await attempt.run();
      if ("busy" in answer) return answer.busy;
      return this.#line(keys).adopt(answer.hold, { wish, actor, sinceMs });
    } finally {
      this.#attempts.delete(attempt);
      line.forgetIfIdle();
    }
  }

  /** One handle over the leases of several keys. */
  #join(leases: readonly HeldLease[], wish: Wish, actor: Actor): HeldLease {
    for (const lease of leases) lease.markReleased();
    const holds = leases.flatMap((lease) => lease.holds);
    return new HeldLease(this, holds, wish, actor, this.system.monoMs());
  }

  async #releaseAll(lease: HeldLease): Promise<boolean> {
    const answers = await Promise.allSettled(lease.holds.map((one) => this.#releaseHold(one)));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    return answers.every((answer) => answer.status === "fulfilled" && answer.value);
  }

  async #releaseHold(hold: Hold): Promise<boolean> {
    this.#releasing += 1;
    const told = this.caller.call(
      "release",
      hold.request.keys[0],
      callTimeoutMs(hold.ttlMs),
      (io) => this.store.release(hold.request, hold.cookie, { lastFences: hold.fences }, io),
      // "not-held" may be the work of the first try.
      (answer) => answer === "released",
    );
    // After the release has left: a task of this process that waits must not get its place in line before it.
    this.holds.end(hold);
    try {
      return (await told) === "released";
    } catch (error) {
      this.holds.abandonment.add(hold.request);
      const detail = LockError.is(error) ? error.message : String(error);
      throw new StoreUnavailableError(
        `the release of ${showKey(hold.request.keys[0] as string)} could not be confirmed, so the key ends with its ttl at the latest: ${detail}`,
        { key: hold.request.keys[0], cause: error },
      );
    } finally {
      this.#releasing -= 1;
      if (this.#releasing === 0) this.#onReleased();
    }
  }

  #ended(hold: Hold): void {
    this.#notes.forget(hold);
    hold.line?.ended(hold);
    this.#onHoldEnd();
  }

  #line(keys: readonly string[]): Line {
    const name = keys.length === 1 ? `1${keys[0]}` : `n${JSON.stringify(keys)}`;
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = new Line(name, keys, this);
      this.#lines.set(name, line);
    }
    return line;
  }
}

/** The error of a lease that ended while its callback ran, carrying what the callback returned. */
export function lostWith(lease: HeldLease | JoinedLease, result: unknown): LockLostError | null {
  if (lease.held || lease.lost === null) return null;
  lease.lost.result = result;
  return lease.lost;
}

/**
 * The error of a lease whose signal has aborted, if that is why a callback threw: it threw the reason of
 * the signal, an error with that reason as its cause, or an AbortError.
 */
export function lossBehind(signal: AbortSignal, error: unknown): LockLostError | null {
  const lost: unknown = signal.reason;
  if (!(lost instanceof LockLostError) || !isAbortOf(signal, error)) return null;
  if (error !== lost)
    Object.defineProperty(lost, "cause", { value: error, writable: true, configurable: true });
  return lost;
}

function releaseTrace(lease: HeldLease): ReleaseTrace {
  const { key, keys, label, fence } = lease.toEvent();
  return { key, keys, label, fence };
}

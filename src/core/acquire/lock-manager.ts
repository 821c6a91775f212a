// What happens at one open store: lines of waiting tasks, holds, and the handles made of them. `locks.ts` checks what the
// caller asked for and comes here; nothing here reads an option or a URL.

import { isAbortOf } from "../util/abort-listener.ts";
import type { Actor } from "../lease/actor.ts";
import { anyAnswer, type Caller, callTimeoutMs } from "../util/store-call.ts";
import { type DeadlockPlace, Detector } from "../deadlock/detector.ts";
import { DueLists } from "../util/due-lists.ts";
import type { Duration } from "../duration.ts";
import { type DeadlockError, type LockError, LockLostError, StoreUnavailableError } from "../errors.ts";
import type { Events } from "../events.ts";
import { FirstAttempt, type Outcome } from "./first-attempt.ts";
import type { Hold, HoldLine } from "../lease/hold.ts";
import { HoldRegistry } from "../lease/hold-registry.ts";
import type { JoinedLease } from "../lease/reentrant-lease.ts";
import { showKey } from "../key.ts";
import { HeldLease, type LeaseKeeper } from "../lease/lease.ts";
import { LocalQueue, type LineDeps, type Waited } from "./local-queue.ts";
import { acquireEach, tryEach } from "./multi-key.ts";
import { Notes } from "../deadlock/note-writer.ts";
import { type Defaults, isPlain, readTtl, type Wish } from "../options.ts";
import { closedError, timeoutError } from "./acquire-errors.ts";
import { ReleaseCall } from "./release-call.ts";
import type { Busy, OpenStore } from "../store.ts";
import type { Instant, System } from "../system.ts";
import { Task } from "./waiter.ts";
import { type ReleaseTrace, releasing, traced } from "../tracing.ts";
import { UnreleasedLeases } from "../lease/unreleased.ts";

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

export class LockManager implements LeaseKeeper, LineDeps, DeadlockPlace {
  readonly store: OpenStore;
  readonly system: System;
  readonly caller: Caller;
  readonly holds: HoldRegistry;
  readonly handoffMs: number;
  readonly deadlines: DueLists<Task>;
  readonly #events: Events;
  readonly #notes: Notes;
  readonly #detector: Detector;
  readonly #deadlockMs: number | null;
  /** By key. A first attempt stands in for a line while it is alone with its key. */
  readonly #lines = new Map<string, LocalQueue | FirstAttempt>();
  /** Of several keys, by all of them. */
  readonly #multiLines = new Map<string, LocalQueue>();
  readonly #admits: Admits;
  readonly #unreleased: UnreleasedLeases;
  /** Attempts in flight that no line knows of. */
  readonly #attempts = new Set<FirstAttempt>();
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
    this.deadlines = new DueLists<Task>(system, (due) => {
      for (const task of due) task.expire();
    });
    this.holds = new HoldRegistry(store, this.caller, system, events, (hold) => this.#ended(hold));
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

  /**
   * As `acquire`, for one key that nobody else of this process wants: null where that is not so. `asResult`
   * makes of the lease what the caller gets.
   */
  acquireAlone<T>(
    keys: readonly string[],
    wish: Wish,
    actor: Actor,
    asResult: (lease: HeldLease) => T,
  ): Promise<T> | null {
    const key = keys[0] as string;
    if (keys.length > 1 || wish.waitMs === 0 || !isPlain(wish) || this.#lines.has(key)) return null;
    return new Promise<T>((resolve, reject) => {
      const attempt: FirstAttempt = new FirstAttempt(this, keys, wish, actor, true, {
        resolve: (lease) => {
          if (this.#admits(actor)) resolve(asResult(lease as HeldLease));
          else void this.#undo(lease as HeldLease, reject);
        },
        reject: (error) => {
          this.#events.failed(error, keys, wish.label, this.system.monoMs() - attempt.sinceMs);
          reject(error);
        },
      });
      this.#lines.set(key, attempt);
      attempt.start();
    });
  }

  /** A grant whose caller has not continued yet when the locks are closed goes back. */
  async #undo(lease: HeldLease, reject: (error: LockError) => void): Promise<void> {
    await lease.release().catch(() => false);
    reject(closedError(lease.keys));
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
    if (!releasing.hasSubscribers) return this.#release(lease);
    return traced(
      releasing,
      () => releaseTrace(lease),
      () => this.#release(lease),
    );
  }

  #release(lease: HeldLease): Promise<boolean> {
    if (lease.sectionMs === 0) {
      this.holds.letGo(lease);
      return Promise.resolve(false);
    }
    lease.markReleased();
    const heldMs = this.system.monoMs() - lease.grantedAtMs;
    const told = (handedOff: boolean): void => {
      if (this.#events.hears("released"))
        this.#events.emit("released", () => ({ ...lease.toEvent(), heldMs, handedOff }));
    };
    if (lease.holds.length > 1) return this.#releaseAll(lease).finally(() => told(false));
    const hold = lease.holds[0] as Hold;
    if (hold.line === null || !hold.line.pass(hold)) return this.#releaseHold(hold, () => told(false));
    told(true);
    return Promise.resolve(true);
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
    for (const line of [...this.#lines.values(), ...this.#multiLines.values(), ...this.#attempts]) {
      if (line instanceof LocalQueue) line.rejectTasks(this.#admits);
      else if (line.isAsking && !this.#admits(line.actor)) line.stop(closedError(line.keys));
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
      else this.#releaseHold(hold, null).catch(() => {});
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

  lease(
    line: HoldLine,
    hold: Hold,
    task: Waited,
    handedOff: boolean,
    now: Instant = this.holds.now(),
  ): HeldLease {
    const nowMs = now.monoMs;
    const lease = new HeldLease(this, [hold], task.wish, task.actor, nowMs);
    this.#unreleased.watch();
    if (handedOff) {
      this.holds.passed(hold);
    } else {
      hold.line = line;
      this.holds.started(hold, now);
    }
    if (!this.#events.hears("acquired")) return lease;
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

  idle(line: LocalQueue): void {
    const [lines, name] =
      line.keys.length === 1 ? [this.#lines, line.keys[0] as string] : [this.#multiLines, nameOf(line.keys)];
    if (lines.get(name) === line) lines.delete(name);
  }

  /** A first attempt has failed, or what it held has ended. */
  forget(attempt: FirstAttempt): void {
    if (!attempt.request.queue) this.#attempts.delete(attempt);
    const key = attempt.keys[0] as string;
    if (this.#lines.get(key) === attempt) this.#lines.delete(key);
  }

  /** A first attempt was granted. It stands for its key until somebody else wants it. */
  adopt(attempt: FirstAttempt, hold: Hold, now: Instant): HeldLease {
    this.#attempts.delete(attempt);
    const key = attempt.keys[0] as string;
    const isAlone =
      attempt.keys.length === 1 && (this.#lines.get(key) ?? attempt) === attempt && isPlain(attempt.wish);
    if (isAlone) {
      this.#lines.set(key, attempt);
      return this.lease(attempt, hold, attempt, false, now);
    }
    const line = this.#line(attempt.keys);
    line.adopt(hold);
    return this.lease(line, hold, attempt, false, now);
  }

  /** A first attempt goes on as a task of a line, under the same id. */
  enqueue(attempt: FirstAttempt): LocalQueue {
    const { keys, wish, actor, sinceMs } = attempt;
    const line = new LocalQueue(keys, this);
    this.#lines.set(keys[0] as string, line);
    const task = new Task(keys, wish, actor, sinceMs, sinceMs + wish.waitMs);
    line.resume(
      task,
      attempt.enqueue(),
      (lease) => attempt.granted(lease),
      (error) => attempt.refused(error),
    );
    if (this.#deadlockMs !== null) this.#detector.waits(task, this, this.#deadlockMs);
    // The attempt that is under way is its last one.
    if (this.system.monoMs() >= task.deadlineMs) task.expire();
    return line;
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
  async #once(keys: readonly string[], wish: Wish, actor: Actor): Promise<HeldLease | Partial<Busy>> {
    if (!this.#admits(actor)) throw closedError(keys);
    const line = this.#lineOf(keys);
    if (line?.busyFor(wish)) return line.ownBusy();
    const outcome = await new Promise<Outcome>((resolve, reject) => {
      const attempt = new FirstAttempt(this, keys, wish, actor, false, { resolve, reject });
      this.#attempts.add(attempt);
      attempt.start();
    });
    return outcome instanceof HeldLease ? outcome : outcome.busy;
  }

  /** One handle over the leases of several keys. */
  #join(leases: readonly HeldLease[], wish: Wish, actor: Actor): HeldLease {
    for (const lease of leases) lease.markReleased();
    const holds = leases.flatMap((lease) => lease.holds);
    return new HeldLease(this, holds, wish, actor, this.system.monoMs());
  }

  async #releaseAll(lease: HeldLease): Promise<boolean> {
    const answers = await Promise.allSettled(lease.holds.map((one) => this.#releaseHold(one, null)));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    return answers.every((answer) => answer.status === "fulfilled" && answer.value);
  }

  #releaseHold(hold: Hold, onEnd: (() => void) | null): Promise<boolean> {
    this.#releasing += 1;
    const told = new Promise<boolean>((resolve, reject) => {
      new ReleaseCall(this, hold, onEnd, resolve, reject).start();
    });
    // After the release has left: a task of this process that waits must not get its place in line before it.
    this.holds.end(hold);
    return told;
  }

  /** The store has answered a release, or was given up on. */
  releaseEnded(): void {
    this.#releasing -= 1;
    if (this.#releasing === 0) this.#onReleased();
  }

  #ended(hold: Hold): void {
    this.#notes.forget(hold);
    hold.line?.ended(hold);
    this.#onHoldEnd();
  }

  #line(keys: readonly string[]): LocalQueue {
    const known = this.#lineOf(keys);
    if (known !== null) return known;
    const line = new LocalQueue(keys, this);
    if (keys.length === 1) this.#lines.set(keys[0] as string, line);
    else this.#multiLines.set(nameOf(keys), line);
    return line;
  }

  /** The line of these keys, if there is one. A first attempt that was alone becomes one. */
  #lineOf(keys: readonly string[]): LocalQueue | null {
    if (keys.length > 1) return this.#multiLines.get(nameOf(keys)) ?? null;
    const found = this.#lines.get(keys[0] as string);
    if (found === undefined || found instanceof LocalQueue) return found ?? null;
    if (found.hold === null) return this.enqueue(found);
    const line = new LocalQueue(keys, this);
    this.#lines.set(keys[0] as string, line);
    line.adopt(found.hold);
    return line;
  }
}

function nameOf(keys: readonly string[]): string {
  return JSON.stringify(keys);
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

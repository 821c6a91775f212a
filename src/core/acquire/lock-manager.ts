// Manages one open store: its local queues, its holds and their leases. `locks.ts` has validated the
// options before it calls the manager.

import { isAbortOf } from "../util/abort-listener.ts";
import type { Actor } from "../lease/actor.ts";
import { anyAnswer, type Caller, callTimeoutMs } from "../util/store-call.ts";
import { type DetectorLockManager, Detector } from "../deadlock/detector.ts";
import { DueLists } from "../util/due-lists.ts";
import type { Duration } from "../duration.ts";
import { type DeadlockError, type LockError, LockLostError, StoreUnavailableError } from "../errors.ts";
import type { Events } from "../events.ts";
import { FirstAttempt, type Outcome } from "./first-attempt.ts";
import type { Hold, HoldQueue } from "../lease/hold.ts";
import { HoldRegistry } from "../lease/hold-registry.ts";
import type { JoinedLease } from "../lease/reentrant-lease.ts";
import { showKey } from "../key.ts";
import { HeldLease, type LeaseOwner } from "../lease/lease.ts";
import { LocalQueue, type QueueDeps, type QueuedCall } from "./local-queue.ts";
import { acquireEach, tryEach } from "./multi-key.ts";
import { NoteWriter } from "../deadlock/note-writer.ts";
import { type Defaults, isPlain, readTtl, type AcquireSpec } from "../options.ts";
import { closedError, timeoutError } from "./acquire-errors.ts";
import { ReleaseCall } from "./release-call.ts";
import type { Busy, OpenStore } from "../store.ts";
import type { Instant, System } from "../system.ts";
import { Waiter } from "./waiter.ts";
import { type ReleaseTrace, releasing, traced } from "../tracing.ts";
import { UnreleasedLeases } from "../lease/unreleased.ts";

/**
 * How long `close` waits for a store that does not answer: for everything, for keys that go back, and at
 * least for its end.
 */
const CLOSE_MS = 2_000;
const GIVE_BACK_MS = 1_500;
const STORE_CLOSE_MS = 500;

/** How long leases may be handed off, and after which wait the detector looks for cycles. */
export type QueueTiming = Pick<Defaults, "handoffMs" | "deadlockMs">;

/** Whether calls of this actor may continue while the locks are being closed. */
export type Admits = (actor: Actor) => boolean;

export class LockManager implements LeaseOwner, QueueDeps, DetectorLockManager {
  readonly store: OpenStore;
  readonly system: System;
  readonly caller: Caller;
  readonly holds: HoldRegistry;
  readonly handoffMs: number;
  readonly deadlines: DueLists<Waiter>;
  readonly #events: Events;
  readonly #notes: NoteWriter;
  readonly #detector: Detector;
  readonly #deadlockMs: number | null;
  /** By key. A first attempt takes the place of a queue while it is the only call for its key. */
  readonly #queues = new Map<string, LocalQueue | FirstAttempt>();
  /** The queues of requests for several keys, by all of their keys. */
  readonly #multiQueues = new Map<string, LocalQueue>();
  readonly #admits: Admits;
  readonly #unreleased: UnreleasedLeases;
  /** Attempts in flight that belong to no queue. */
  readonly #attempts = new Set<FirstAttempt>();
  /** Releases without an answer of the store yet. */
  #releasing = 0;
  #onReleased: () => void = () => {};
  #onHoldEnd: () => void = () => {};

  constructor(
    store: OpenStore,
    caller: Caller,
    system: System,
    events: Events,
    timing: QueueTiming,
    admits: Admits,
  ) {
    this.store = store;
    this.system = system;
    this.#events = events;
    this.handoffMs = timing.handoffMs;
    this.#deadlockMs = timing.deadlockMs;
    this.#admits = admits;
    this.caller = caller;
    caller.isRemote = store.guarantees.scope === "network";
    this.deadlines = new DueLists<Waiter>(system, (due) => {
      for (const waiter of due) waiter.expire();
    });
    this.holds = new HoldRegistry(store, this.caller, system, events, (hold) => this.#ended(hold));
    this.#notes = new NoteWriter(store, caller, system, this.holds.renewal);
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

  acquire(keys: readonly string[], spec: AcquireSpec, actor: Actor, sinceMs: number): Promise<HeldLease> {
    if (keys.length === 1 || this.store.guarantees.kinds.includes("multi")) {
      return this.#acquireQueued(keys, spec, actor, sinceMs);
    }
    const one = (key: string): Promise<HeldLease> => this.#acquireQueued([key], spec, actor, sinceMs);
    return acquireEach(keys, one).then((leases) => this.#join(leases, spec, actor));
  }

  /**
   * As `acquire`, for one key that no other call of this process wants. Returns null if another call
   * wants it. `asResult` converts the lease into the caller's result.
   */
  acquireAlone<T>(
    keys: readonly string[],
    spec: AcquireSpec,
    actor: Actor,
    asResult: (lease: HeldLease) => T,
  ): Promise<T> | null {
    const key = keys[0] as string;
    if (keys.length > 1 || spec.waitMs === 0 || !isPlain(spec) || this.#queues.has(key)) return null;
    return new Promise<T>((resolve, reject) => {
      const attempt: FirstAttempt = new FirstAttempt(this, keys, spec, actor, true, {
        resolve: (lease) => {
          if (this.#admits(actor)) resolve(asResult(lease as HeldLease));
          else void this.#undo(lease as HeldLease, reject);
        },
        reject: (error) => {
          this.#events.failed(error, keys, spec.label, this.system.monoMs() - attempt.sinceMs);
          reject(error);
        },
      });
      this.#queues.set(key, attempt);
      attempt.start();
    });
  }

  /** A grant whose caller has not continued yet when the locks are closed goes back. */
  async #undo(lease: HeldLease, reject: (error: LockError) => void): Promise<void> {
    await lease.release().catch(() => false);
    reject(closedError(lease.keys));
  }

  async tryAcquire(keys: readonly string[], spec: AcquireSpec, actor: Actor): Promise<HeldLease | null> {
    if (keys.length > 1 && !this.store.guarantees.kinds.includes("multi")) {
      const leases = await tryEach(keys, async (key) => {
        const answer = await this.#once([key], spec, actor);
        return answer instanceof HeldLease ? answer : null;
      });
      return leases === null ? null : this.#join(leases, spec, actor);
    }
    const answer = await this.#once(keys, spec, actor);
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
    if (lease.leftMs === 0) {
      this.holds.finishRevoked(lease);
      return Promise.resolve(false);
    }
    lease.markReleased();
    const report = this.#events.hears("released") ? this.#releasedEvent(lease) : null;
    if (lease.holds.length > 1) return this.#releaseAll(lease).finally(() => report?.(false));
    const hold = lease.holds[0] as Hold;
    if (hold.queue === null || !hold.queue.pass(hold)) return this.#releaseHold(hold, report);
    report?.(true);
    return Promise.resolve(true);
  }

  /** Emits the event `released`. */
  #releasedEvent(lease: HeldLease): (handedOff?: boolean) => void {
    const heldMs = this.system.monoMs() - lease.grantedAtMs;
    return (handedOff = false) =>
      this.#events.emit("released", () => ({ ...lease.toEvent(), heldMs, handedOff }));
  }

  async extend(lease: HeldLease, ttl: Duration | undefined): Promise<void> {
    if (lease.leftMs === 0) lease.assertHeld();
    await Promise.all(
      lease.holds.map(async (hold) => {
        const answer = await this.holds.renewal.now(hold, ttl === undefined ? hold.ttlMs : readTtl(ttl));
        if (answer.state === "renewed" || answer.state === "lost") return;
        throw new StoreUnavailableError(`the store did not extend the lease of ${showKey(lease.key)}`, {
          key: lease.key,
          cause: answer.state === "unknown" ? answer.cause : undefined,
        });
      }),
    );
    if (lease.leftMs === 0) lease.assertHeld();
  }

  async verify(lease: HeldLease): Promise<boolean> {
    if (lease.leftMs === 0) return false;
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
    return lease.leftMs > 0;
  }

  /** Rejects waiting calls and undoes attempts in flight, except those of actors that may continue. */
  rejectCalls(): void {
    for (const queue of [...this.#queues.values(), ...this.#multiQueues.values(), ...this.#attempts]) {
      if (queue instanceof LocalQueue) queue.rejectWaiters(this.#admits);
      else if (queue.isAsking && !this.#admits(queue.actor)) queue.stop(closedError(queue.keys));
    }
  }

  leases(): HeldLease[] {
    return [...new Set(this.holds.all().flatMap((hold) => hold.lease ?? []))];
  }

  /** Calls `listener` for every hold that ends from now on. */
  onHoldEnd(listener: () => void): void {
    this.#onHoldEnd = listener;
  }

  /** Marks these leases as lost, and releases them after the listeners of their signals have run. */
  endLeases(leases: readonly HeldLease[]): void {
    for (const lease of leases) this.loseToClose(lease);
    const holds = leases.flatMap((lease) => lease.holds);
    void this.system.yield().then(() => this.#releaseHolds(holds));
  }

  loseToClose(lease: HeldLease): void {
    lease.notifyClosed();
    this.holds.loseToClose(lease);
  }

  /** Releases what is left and closes the store. All calls were rejected and all holders notified before. */
  async close(): Promise<void> {
    const endMs = this.system.monoMs() + CLOSE_MS;
    this.#releaseHolds(this.holds.all());
    await this.#released(GIVE_BACK_MS);
    this.holds.finishAllRevoked();
    // A failed release is now an abandonment.
    await this.holds.abandonment.settled(endMs - STORE_CLOSE_MS - this.system.monoMs());
    this.holds.stop();
    this.#unreleased.stop();
    this.deadlines.stop();
    this.#detector.close(this);
    // Ignore a failing close: all keys were already released.
    const leftMs = Math.max(STORE_CLOSE_MS, endMs - this.system.monoMs());
    await this.caller.call("close", undefined, leftMs, () => this.store.close()).catch(() => {});
  }

  #releaseHolds(holds: readonly Hold[]): void {
    for (const hold of holds) {
      if (hold.ended) continue;
      if (hold.lease === null) this.giveBack(hold);
      // A failed release is abandoned.
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
    queue: HoldQueue,
    hold: Hold,
    waiter: QueuedCall,
    handedOff: boolean,
    now: Instant = this.holds.now(),
  ): HeldLease {
    const nowMs = now.monoMs;
    const lease = new HeldLease(this, [hold], waiter.spec, waiter.actor, nowMs);
    this.#unreleased.watch();
    if (handedOff) {
      this.holds.passed(hold);
    } else {
      hold.queue = queue;
      this.holds.started(hold, now);
    }
    if (!this.#events.hears("acquired")) return lease;
    this.#events.emit("acquired", () => ({
      ...lease.toEvent(),
      waitedMs: nowMs - waiter.sinceMs,
      handedOff,
    }));
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

  deadlock(waiter: Waiter, { cycle }: DeadlockError): void {
    const waitedMs = this.system.monoMs() - waiter.sinceMs;
    const { keys, spec } = waiter;
    this.#events.emit("deadlock", () => ({
      key: keys[0] as string,
      keys,
      label: spec.label,
      waitedMs,
      cycle,
    }));
  }

  waiting(waiter: Waiter): void {
    this.#events.emit("waiting", () => ({
      key: waiter.keys[0] as string,
      keys: waiter.keys,
      label: waiter.spec.label,
    }));
  }

  idle(queue: LocalQueue): void {
    const [queues, name] =
      queue.keys.length === 1
        ? [this.#queues, queue.keys[0] as string]
        : [this.#multiQueues, nameOf(queue.keys)];
    if (queues.get(name) === queue) queues.delete(name);
  }

  /** A first attempt has failed, or its hold has ended. */
  forget(attempt: FirstAttempt): void {
    if (!attempt.request.queue) this.#attempts.delete(attempt);
    const key = attempt.keys[0] as string;
    if (this.#queues.get(key) === attempt) this.#queues.delete(key);
  }

  /** A first attempt was granted. It takes the place of a queue until another call wants the key. */
  adopt(attempt: FirstAttempt, hold: Hold, now: Instant): HeldLease {
    this.#attempts.delete(attempt);
    const key = attempt.keys[0] as string;
    const isAlone =
      attempt.keys.length === 1 && (this.#queues.get(key) ?? attempt) === attempt && isPlain(attempt.spec);
    if (isAlone) {
      this.#queues.set(key, attempt);
      return this.lease(attempt, hold, attempt, false, now);
    }
    const queue = this.#queue(attempt.keys);
    queue.adopt(hold);
    return this.lease(queue, hold, attempt, false, now);
  }

  /** A first attempt goes on as a waiter of a local queue, with the same id. */
  enqueue(attempt: FirstAttempt): LocalQueue {
    const { keys, spec, actor, sinceMs } = attempt;
    const queue = new LocalQueue(keys, this);
    this.#queues.set(keys[0] as string, queue);
    const waiter = new Waiter(keys, spec, actor, sinceMs, sinceMs + spec.waitMs);
    queue.resume(
      waiter,
      attempt.enqueue(),
      (lease) => attempt.granted(lease),
      (error) => attempt.refused(error),
    );
    if (this.#deadlockMs !== null) this.#detector.waits(waiter, this, this.#deadlockMs);
    // The attempt in flight is its last one.
    if (this.system.monoMs() >= waiter.deadlineMs) waiter.expire();
    return queue;
  }

  #acquireQueued(
    keys: readonly string[],
    spec: AcquireSpec,
    actor: Actor,
    sinceMs: number,
  ): Promise<HeldLease> {
    if (spec.waitMs === 0) return this.#acquireNow(keys, spec, actor, sinceMs);
    if (!this.#admits(actor)) return Promise.reject(closedError(keys));
    const waiter = new Waiter(keys, spec, actor, sinceMs, sinceMs + spec.waitMs);
    const entered = this.#queue(keys).enter(waiter);
    if (this.#deadlockMs !== null && waiter.pending) this.#detector.waits(waiter, this, this.#deadlockMs);
    return entered;
  }

  async #acquireNow(
    keys: readonly string[],
    spec: AcquireSpec,
    actor: Actor,
    sinceMs: number,
  ): Promise<HeldLease> {
    const answer = await this.#once(keys, spec, actor);
    if (answer instanceof HeldLease) return answer;
    throw timeoutError(keys, Math.round(this.system.monoMs() - sinceMs), answer, 0);
  }

  /** One attempt: a lease, or the "busy" answer. */
  async #once(keys: readonly string[], spec: AcquireSpec, actor: Actor): Promise<HeldLease | Partial<Busy>> {
    if (!this.#admits(actor)) throw closedError(keys);
    const queue = this.#queueOf(keys);
    if (queue?.busyFor(spec)) return queue.ownBusy();
    const outcome = await new Promise<Outcome>((resolve, reject) => {
      const attempt = new FirstAttempt(this, keys, spec, actor, false, { resolve, reject });
      this.#attempts.add(attempt);
      attempt.start();
    });
    return outcome instanceof HeldLease ? outcome : outcome.busy;
  }

  /** One handle over the leases of several keys. */
  #join(leases: readonly HeldLease[], spec: AcquireSpec, actor: Actor): HeldLease {
    for (const lease of leases) lease.markReleased();
    const holds = leases.flatMap((lease) => lease.holds);
    return new HeldLease(this, holds, spec, actor, this.system.monoMs());
  }

  async #releaseAll(lease: HeldLease): Promise<boolean> {
    const answers = await Promise.allSettled(lease.holds.map((one) => this.#releaseHold(one, null)));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    return answers.every((answer) => answer.status === "fulfilled" && answer.value);
  }

  #releaseHold(hold: Hold, onEnd: (() => void) | null): Promise<boolean> {
    this.#releasing += 1;
    const released = new Promise<boolean>((resolve, reject) => {
      new ReleaseCall(this, hold, onEnd, resolve, reject).start();
    });
    // The release was sent before: a waiter of this process must not join the store's queue ahead of it.
    this.holds.end(hold);
    return released;
  }

  /** The store has answered a release, or the release has timed out. */
  releaseEnded(): void {
    this.#releasing -= 1;
    if (this.#releasing === 0) this.#onReleased();
  }

  #ended(hold: Hold): void {
    if (hold.noted) this.#notes.forget(hold);
    hold.queue?.ended(hold);
    this.#onHoldEnd();
  }

  #queue(keys: readonly string[]): LocalQueue {
    const known = this.#queueOf(keys);
    if (known !== null) return known;
    const queue = new LocalQueue(keys, this);
    if (keys.length === 1) this.#queues.set(keys[0] as string, queue);
    else this.#multiQueues.set(nameOf(keys), queue);
    return queue;
  }

  /** The queue of these keys, if there is one. A first attempt that was alone becomes one. */
  #queueOf(keys: readonly string[]): LocalQueue | null {
    if (keys.length > 1) return this.#multiQueues.get(nameOf(keys)) ?? null;
    const found = this.#queues.get(keys[0] as string);
    if (found === undefined || found instanceof LocalQueue) return found ?? null;
    if (found.hold === null) return this.enqueue(found);
    const queue = new LocalQueue(keys, this);
    this.#queues.set(keys[0] as string, queue);
    queue.adopt(found.hold);
    return queue;
  }
}

function nameOf(keys: readonly string[]): string {
  return JSON.stringify(keys);
}

/** The error of a lease that was lost while its callback ran, with the result of the callback. */
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

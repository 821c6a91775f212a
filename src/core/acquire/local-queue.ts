// The calls of this process that wait for the same keys.
//
// Only the head asks the store, through one acquisition, so a thousand waiting calls are one waiter in
// the store. A released lease goes to the next waiter without a round trip while its hand-off slice
// lasts. The slice is a time, so that other processes wait for a bounded time however long the critical
// sections are. The position in the store's queue belongs to the acquisition, not to the waiter that it
// was started for.

import { type FirstAnswer, Acquisition, type AcquisitionContext } from "./acquisition.ts";
import type { Actor } from "../lease/actor.ts";
import type { DueLists } from "../util/due-lists.ts";
import type { LockError } from "../errors.ts";
import type { Hold, HoldQueue } from "../lease/hold.ts";
import type { HeldLease } from "../lease/lease.ts";
import { sameLockSpec, type AcquireSpec } from "../options.ts";
import { closedError, SHOWN_HOLDERS, timeoutError, unaskedError } from "./acquire-errors.ts";
import type { Busy } from "../store.ts";
import type { Instant } from "../system.ts";
import { type Waiter, type WaiterQueue, WaiterList } from "./waiter.ts";

/**
 * A lease is handed on only while this share of its ttl is left, so that the next holder has time to
 * work.
 */
const FRESH_SHARE = 0.5;
/** The most acquisitions for readers or permits of one queue at the same time. */
const MOST_BESIDE = 64;

/** The caller of a lease, and the start of its call. */
export interface QueuedCall {
  readonly spec: AcquireSpec;
  readonly actor: Actor;
  readonly sinceMs: number;
}

export interface QueueDeps extends AcquisitionContext {
  readonly handoffMs: number;
  readonly deadlines: DueLists<Waiter>;
  /** Makes the handle of a granted hold. */
  lease(queue: HoldQueue, hold: Hold, waiter: QueuedCall, handedOff: boolean, now?: Instant): HeldLease;
  /** Releases a grant that no call waits for any more. */
  giveBack(hold: Hold): void;
  waiting(waiter: Waiter): void;
  /** Called when the queue is empty. */
  idle(queue: LocalQueue): void;
}

export class LocalQueue implements WaiterQueue {
  readonly keys: readonly string[];
  readonly #deps: QueueDeps;
  readonly #waiters = new WaiterList();
  readonly #holds = new Set<Hold>();
  /** The last grant: the only one that may be handed off. */
  #newest: Hold | null = null;
  #acquisition: Acquisition | null = null;
  /** The waiter that the acquisition was started for. */
  #acquisitionFor: Waiter | null = null;
  /** Acquisitions of readers or permits behind the head, which cannot conflict with it. */
  readonly #beside = new Map<Waiter, Acquisition>();
  /**
   * The store has answered "busy", so the queue does not attempt for the readers or permits behind the
   * head.
   */
  #isBlocked = false;
  #cancelSlice: (() => void) | null = null;

  constructor(keys: readonly string[], deps: QueueDeps) {
    this.keys = keys;
    this.#deps = deps;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Whether a call that does not wait certainly gets no lease. */
  busyFor(waiter: { readonly mode: string; readonly limit: number }): boolean {
    if (this.#waiters.size > 0) return true;
    for (const hold of this.#holds) {
      if (hold.remaining() === 0 || waiter.limit > 1) continue;
      if (waiter.mode === "exclusive" || hold.spec.mode === "exclusive") return true;
    }
    return false;
  }

  enter(waiter: Waiter): Promise<HeldLease> {
    return new Promise((resolve, reject) => {
      waiter.wait(this, this.#deps.deadlines, resolve, reject);
      if (this.#waiters.size > 0 || this.#holds.size > 0) this.#announce(waiter);
      this.#waiters.push(waiter);
      this.#advance();
    });
  }

  /** Makes the queue of a waiter whose first attempt is in flight. */
  resume(
    waiter: Waiter,
    first: FirstAnswer,
    resolve: (lease: HeldLease) => void,
    reject: (error: LockError) => void,
  ): void {
    waiter.wait(this, this.#deps.deadlines, resolve, reject);
    this.#waiters.push(waiter);
    this.#ask(waiter, first);
  }

  /** Takes over a grant that no acquisition of this queue asked for. */
  adopt(hold: Hold): void {
    hold.queue = this;
    this.#take(hold);
  }

  #take(hold: Hold): void {
    this.#holds.add(hold);
    this.#newest = hold;
  }

  /** Hands the hold to the next waiter. False: it has to be released in the store. */
  pass(hold: Hold): boolean {
    const next = this.#waiters.head;
    if (next === null || !this.#passable(hold, next)) return false;
    hold.pass();
    this.#give(next, hold, true);
    this.#advance();
    return true;
  }

  /** The hold has ended. */
  ended(hold: Hold): void {
    this.#holds.delete(hold);
    // The release was sent before, so waiters of other processes come first.
    this.#advance();
  }

  /** The locks are being closed: rejects the calls whose actor may not continue. */
  rejectWaiters(admits: (actor: Actor) => boolean): void {
    for (const waiter of this.#waiters.all()) {
      if (!admits(waiter.actor)) this.leave(waiter, closedError(this.keys));
    }
  }

  #passable(hold: Hold, waiter: Waiter): boolean {
    return (
      !hold.noted &&
      // A newer grant beside it means that the store has forgotten this one.
      hold === this.#newest &&
      hold.hasRoom &&
      sameLockSpec(hold.spec, waiter.spec) &&
      // One that was extended is longer than the next waiter asked for.
      hold.ttlMs === waiter.spec.ttlMs &&
      this.#sliceLeftMs(hold) > 0 &&
      hold.remaining() >= hold.termMs * FRESH_SHARE
    );
  }

  #sliceLeftMs(hold: Hold): number {
    return hold.grantedAtMs + this.#deps.handoffMs - this.#deps.system.monoMs();
  }

  /** Starts an acquisition for the head of the queue, or stops it when nobody waits. */
  #advance(): void {
    const head = this.#waiters.head;
    if (this.#acquisition !== null && (head === null || !this.#mayTakeOver(head))) {
      this.#acquisition.stop();
      this.#acquisition = null;
    }
    if (head === null) {
      this.#cancelSlice?.();
      this.#cancelSlice = null;
      this.#isBlocked = false;
      if (this.#holds.size === 0) this.#deps.idle(this);
      return;
    }
    if (this.#acquisition === null) {
      const own = this.#beside.get(head);
      if (own === undefined) {
        for (const hold of this.#holds) {
          if (this.#passable(hold, head)) return this.#askAtSliceEnd(hold);
        }
        this.#ask(head);
      } else {
        this.#beside.delete(head);
        this.#acquisition = own;
        this.#acquisitionFor = head;
      }
    }
    if (this.#mayShare(head)) this.#askBeside(head);
  }

  /**
   * Whether several waiters may hold the key together, and the store grants at the moment: the last
   * waiter did not have to wait.
   */
  #mayShare({ spec }: Waiter): boolean {
    return (spec.mode === "shared" || spec.limit > 1) && this.#holds.size > 0 && !this.#isBlocked;
  }

  /**
   * Starts acquisitions for the waiters that fit beside the head, so that their round trips run in
   * parallel.
   */
  #askBeside(head: Waiter): void {
    let permits = 0;
    for (const hold of this.#holds) permits += hold.spec.permits;
    for (const waiter of this.#waiters.first(MOST_BESIDE)) {
      if (!sameLockSpec(waiter.spec, head.spec)) return;
      permits += waiter.spec.permits;
      if (waiter.spec.limit > 1 && permits > waiter.spec.limit) return;
      if (waiter === head || this.#beside.has(waiter)) continue;
      const acquisition = this.#newAcquisition(waiter, null);
      this.#beside.set(waiter, acquisition);
      acquisition.start(false);
    }
  }

  /**
   * Whether the acquisition can serve this head. The store may have granted it already, without its
   * reply. For an exclusive lock that is harmless. Beside other holders, its fence may be smaller than
   * one that was returned before the call of this head began (P3).
   */
  #mayTakeOver(head: Waiter): boolean {
    if (head === this.#acquisitionFor) return true;
    return (
      head.spec.mode === "exclusive" &&
      head.spec.limit === 1 &&
      sameLockSpec((this.#acquisition as Acquisition).spec, head.spec)
    );
  }

  /** While a hand-off within the process is still possible, no acquisition is needed. */
  #askAtSliceEnd(hold: Hold): void {
    if (this.#cancelSlice !== null) return;
    this.#cancelSlice = this.#deps.system.after(this.#sliceLeftMs(hold), () => {
      this.#cancelSlice = null;
      this.#advance();
    });
  }

  #ask(head: Waiter, first: FirstAnswer | null = null): void {
    const acquisition = this.#newAcquisition(head, first);
    this.#acquisition = acquisition;
    this.#acquisitionFor = head;
    acquisition.start(this.#holds.size > 0 && !this.#mayShare(head));
  }

  #newAcquisition(waiter: Waiter, first: FirstAnswer | null): Acquisition {
    const acquisition: Acquisition = new Acquisition(
      this.#deps,
      { keys: this.keys, spec: waiter.spec, label: waiter.spec.label, actor: waiter.actor.name },
      {
        granted: (hold) => this.#granted(acquisition, this.#waiterOf(acquisition, waiter), hold),
        failed: (error) => this.#failed(acquisition, this.#waiterOf(acquisition, waiter), error),
        busy: () => {
          this.#isBlocked = true;
          const waits = this.#waiterOf(acquisition, waiter);
          if (waits !== null) this.#announce(waits);
        },
      },
      first,
    );
    return acquisition;
  }

  /** The waiter that an acquisition serves: the head, or the one that it was started for beside the head. */
  #waiterOf(acquisition: Acquisition, waiter: Waiter): Waiter | null {
    return this.#beside.get(waiter) === acquisition ? waiter : this.#waiters.head;
  }

  #announce(waiter: Waiter): void {
    if (!waiter.announced) this.#deps.waiting(waiter);
    waiter.announced = true;
  }

  #granted(acquisition: Acquisition, waiter: Waiter | null, hold: Hold): void {
    this.#forgetAcquisition(acquisition, waiter);
    if (acquisition.lastBusy === null) this.#isBlocked = false;
    if (waiter === null || !sameLockSpec(waiter.spec, hold.spec)) {
      this.#deps.giveBack(hold);
    } else {
      this.#take(hold);
      this.#give(waiter, hold, false);
    }
    this.#advance();
  }

  #forgetAcquisition(acquisition: Acquisition, waiter: Waiter | null): void {
    if (this.#acquisition === acquisition) this.#acquisition = null;
    else if (waiter !== null && this.#beside.get(waiter) === acquisition) this.#beside.delete(waiter);
  }

  #failed(acquisition: Acquisition, waiter: Waiter | null, error: LockError): void {
    this.#forgetAcquisition(acquisition, waiter);
    if (waiter !== null) this.leave(waiter, error);
    else this.#advance();
  }

  #give(waiter: Waiter, hold: Hold, handedOff: boolean): void {
    this.#waiters.remove(waiter);
    waiter.granted(this.#deps.lease(this, hold, waiter, handedOff));
  }

  leave(waiter: Waiter, error: LockError): void {
    this.#waiters.remove(waiter);
    this.#beside.get(waiter)?.stop();
    this.#beside.delete(waiter);
    waiter.refused(error);
    this.#advance();
  }

  /** At its deadline, the head attempts one last time. The other waiters time out without an attempt. */
  expired(waiter: Waiter): void {
    const acquisition =
      this.#waiters.head === waiter ? this.#acquisition : (this.#beside.get(waiter) ?? null);
    if (acquisition === null) {
      this.leave(waiter, this.#timeout(waiter));
      return;
    }
    void acquisition.lastTry().then(() => {
      if (waiter.pending) this.leave(waiter, this.#timeout(waiter));
    });
  }

  #timeout(waiter: Waiter): LockError {
    const waitedMs = Math.round(this.#deps.system.monoMs() - waiter.sinceMs);
    const acquisition = this.#beside.get(waiter) ?? this.#acquisition;
    if (acquisition !== null && acquisition.lastError !== null) {
      return unaskedError(this.keys, waitedMs, acquisition.lastError);
    }
    return timeoutError(
      this.keys,
      waitedMs,
      { ...this.ownBusy(), ...acquisition?.lastBusy },
      this.#waiters.size,
    );
  }

  /** The holders of the keys in this process. */
  ownBusy(): Pick<Busy, "holders" | "holderCount"> {
    const shown = [...this.#holds].slice(0, SHOWN_HOLDERS).map((hold) => ({
      label: hold.lease?.label ?? hold.request.label,
      mode: hold.spec.mode,
      permits: hold.spec.permits,
      fence: hold.fences[0] as bigint,
      remainingMs: hold.remaining(),
      heldMs: this.#deps.system.monoMs() - hold.grantedAtMs,
    }));
    return { holders: shown, holderCount: this.#holds.size };
  }
}

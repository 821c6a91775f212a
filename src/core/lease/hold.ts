// One grant of the store in this process: its window, its fences, and the lease that uses it at the
// moment. After a hand-off the same hold has another lease. A hold ends only once and cannot be restored
// (P6).

import { DueEntry } from "../util/due-lists.ts";
import type { HeldLease } from "./lease.ts";
import { isPlain, type LockSpec } from "../options.ts";
import type { Grant, LossReason, Request } from "../store.ts";
import type { Instant } from "../system.ts";
import { type Clock, remainingMs, type Window } from "./validity-window.ts";

/** The owner of a hold, which is notified when the hold notices that it has expired. */
export interface HoldOwner {
  readonly clock: Clock;
  /** The longest window that the store can give. */
  readonly longestMs: number;
  now(): Instant;
  lost(hold: Hold, reason: LossReason, detail?: string): void;
}

/** Fences per microsecond. Less than one, because the store's clock may run slower than ours. */
const PASSES_PER_US = 0.95;

/** The local queue for the keys of the hold. */
export interface HoldQueue {
  pass(hold: Hold): boolean;
  ended(hold: Hold): void;
}

/** A due time of a hold. */
export class HoldDue extends DueEntry {
  readonly hold: Hold;

  constructor(hold: Hold) {
    super();
    this.hold = hold;
  }
}

export class Hold {
  /** The time of the next renewal. */
  readonly renewalDue: HoldDue = new HoldDue(this);
  /** The time at which the holder is warned, or the lease is lost. */
  readonly lossDue: HoldDue = new HoldDue(this);
  /** Links of the list of all holds. */
  previous: Hold | null = null;
  next: Hold | null = null;
  readonly request: Request;
  readonly spec: LockSpec;
  readonly cookie: unknown;
  /** When the store's grant arrived, by the monotonic clock: the hand-off slice counts from here. */
  readonly grantedAtMs: number;
  readonly #owner: HoldOwner;
  readonly #firstFences: readonly bigint[];
  readonly #room: number;
  #passed = 0;
  #window: Window;
  #ended = false;
  lease: HeldLease | null = null;
  /** The queue for hand-offs, if there is one. */
  queue: HoldQueue | null = null;
  #ttlMs: number;
  /** The end of the requested ttl without a renewal, by the monotonic clock. */
  #dueUntilMs: number;
  endangered = false;
  /** The record has a note. The hold is not handed off then, because the note is about its current holder. */
  noted = false;

  constructor(
    owner: HoldOwner,
    request: Request,
    spec: LockSpec,
    grant: Grant,
    sentAt: Instant,
    grantedAtMs: number,
  ) {
    this.#owner = owner;
    this.request = request;
    this.spec = spec;
    this.cookie = grant.cookie;
    this.#firstFences = grant.fences;
    this.#room = grant.reservedFences;
    this.#window = { since: sentAt, validMs: grant.validMs };
    this.grantedAtMs = grantedAtMs;
    this.#ttlMs = spec.ttlMs;
    this.#dueUntilMs = sentAt.monoMs + spec.ttlMs;
  }

  get window(): Window {
    return this.#window;
  }

  get ended(): boolean {
    return this.#ended;
  }

  get ttlMs(): number {
    return this.#ttlMs;
  }

  /** The longest window: the ttl, or less if the store grants less at a time. */
  get termMs(): number {
    return Math.min(this.#ttlMs, this.#owner.longestMs);
  }

  /** The rest of the ttl after the window, if the store grants less than the ttl at a time. */
  owedMs(nowMs: number): number {
    const windowEndMs = this.#window.since.monoMs + this.#window.validMs;
    return this.#dueUntilMs > windowEndMs + 1 ? Math.max(0, this.#dueUntilMs - nowMs) : 0;
  }

  /** Sets a new ttl, counted from the send of the extension. */
  extended(sentAt: Instant, ttlMs: number): void {
    this.#ttlMs = ttlMs;
    this.#dueUntilMs = sentAt.monoMs + ttlMs;
  }

  /** Whether the request can use the callback form of the store. */
  get isPlain(): boolean {
    return this.request.keys.length === 1 && isPlain(this.spec);
  }

  /** The fences in use, in the order of `request.keys`. */
  get fences(): readonly bigint[] {
    if (this.#passed === 0) return this.#firstFences;
    const passed = BigInt(this.#passed);
    return this.#firstFences.map((fence) => fence + passed);
  }

  /** Whether the hold was handed off, so that its fence is larger than the granted one. */
  get wasPassed(): boolean {
    return this.#passed > 0;
  }

  /**
   * How many fences hand-offs may have used: one, and one more per microsecond. A store can therefore
   * compute from the time alone which fences a dead holder may have used.
   */
  get hasRoom(): boolean {
    return this.#passed < Math.min(this.#room, 1 + this.#heldUs() * PASSES_PER_US);
  }

  #heldUs(): number {
    return (this.#owner.now().monoMs - this.grantedAtMs) * 1_000;
  }

  /** For how many ms the hold is certainly valid, by all clocks and by `maxHold`. At 0 the hold ends. */
  remaining(now: Instant = this.#owner.now()): number {
    if (this.#ended) return 0;
    const left = this.#left(now);
    if (left > 0) return left;
    this.#owner.lost(this, this.#limitMs(now) <= 0 ? "max-hold" : "expired");
    return 0;
  }

  /** As `remaining`, but does not end the hold. */
  #left(now: Instant): number {
    return Math.min(remainingMs(this.#window, now, this.#owner.clock), this.#limitMs(now));
  }

  #limitMs(now: Instant): number {
    return (this.lease?.endsAtMs ?? Number.POSITIVE_INFINITY) - now.monoMs;
  }

  /** Applies a confirmed renewal. It never moves the end back, and never restores an ended hold. */
  renewed(sentAt: Instant, validMs: number): boolean {
    if (this.remaining() === 0) return false;
    const window = { since: sentAt, validMs };
    const now = this.#owner.now();
    if (remainingMs(window, now, this.#owner.clock) > remainingMs(this.#window, now, this.#owner.clock)) {
      this.#window = window;
      this.endangered = false;
    }
    return true;
  }

  /**
   * Gives the next lease a larger fence. The fence keeps up with the clock, as the fences of the store
   * do. If the store loses its record, fences of hand-offs are then not smaller than those of new grants,
   * except for network delay.
   */
  pass(): void {
    const byClock = Math.floor(this.#heldUs() * PASSES_PER_US);
    this.#passed = Math.min(this.#room, Math.max(this.#passed + 1, byClock));
  }

  end(): void {
    this.#ended = true;
  }
}

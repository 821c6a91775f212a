// One grant of the store as this process keeps it: its window, its fences, and the handle that uses it at the moment.
// A hold outlives its handles when it is passed from task to task. It ends once and for ever (P6).

import { DueEntry } from "../util/due-lists.ts";
import type { HeldLease } from "./lease.ts";
import { isPlain, type LockSpec } from "../options.ts";
import type { Grant, LossReason, Request } from "../store.ts";
import type { Instant } from "../system.ts";
import { type Clock, remainingMs, type Window } from "./validity-window.ts";

/** Told when a hold finds out by itself that it is over. */
export interface HoldOwner {
  readonly clock: Clock;
  /** The longest window that the store can give. */
  readonly longestMs: number;
  now(): Instant;
  lost(hold: Hold, reason: LossReason, detail?: string): void;
}

/** Less than one, because the store's clock may run slower than ours. */
const PASSES_PER_US = 0.95;

/** The queue whose waiters want the keys of this hold. */
export interface HoldQueue {
  pass(hold: Hold): boolean;
  ended(hold: Hold): void;
}

/** One due time of a hold. */
export class HoldDue extends DueEntry {
  readonly hold: Hold;

  constructor(hold: Hold) {
    super();
    this.hold = hold;
  }
}

export class Hold {
  /** When it is renewed. */
  readonly renewalDue: HoldDue = new HoldDue(this);
  /** When its holder is warned, or has lost it. */
  readonly lossDue: HoldDue = new HoldDue(this);
  /** Its neighbours among all holds. */
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
  /** Where it may be handed on. */
  queue: HoldQueue | null = null;
  #ttlMs: number;
  /** Until when the ttl that was asked for lasts, by the monotonic clock, should nobody renew. */
  #dueUntilMs: number;
  endangered = false;
  /** A record that says what its holder waits for is not handed on: the note would be another's. */
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

  /** How long a window gets at the most: the ttl, or less where the store gives less at a time. */
  get termMs(): number {
    return Math.min(this.#ttlMs, this.#owner.longestMs);
  }

  /** What is left of the ttl behind the window, where the store gives less than the ttl at a time. */
  owedMs(nowMs: number): number {
    const windowEndMs = this.#window.since.monoMs + this.#window.validMs;
    return this.#dueUntilMs > windowEndMs + 1 ? Math.max(0, this.#dueUntilMs - nowMs) : 0;
  }

  /** The lease was extended: from that send it lasts so long. */
  extended(sentAt: Instant, ttlMs: number): void {
    this.#ttlMs = ttlMs;
    this.#dueUntilMs = sentAt.monoMs + ttlMs;
  }

  /** The kind of request that a store may take in its callback form. */
  get isPlain(): boolean {
    return this.request.keys.length === 1 && isPlain(this.spec);
  }

  /** The fences in use, in the order of `request.keys`. */
  get fences(): readonly bigint[] {
    if (this.#passed === 0) return this.#firstFences;
    const passed = BigInt(this.#passed);
    return this.#firstFences.map((fence) => fence + passed);
  }

  /** Whether its fence is no longer the one that the store granted. */
  get wasPassed(): boolean {
    return this.#passed > 0;
  }

  /** At most one hand-off, and one more for each microsecond: by the clock alone a store knows which fences a vanished holder may have used. */
  get hasRoom(): boolean {
    return this.#passed < Math.min(this.#room, 1 + this.#heldUs() * PASSES_PER_US);
  }

  #heldUs(): number {
    return (this.#owner.now().monoMs - this.grantedAtMs) * 1_000;
  }

  /** ms for which this hold is certain, by all clocks and by its lease's own limit; 0 latches the loss. */
  remaining(now: Instant = this.#owner.now()): number {
    if (this.#ended) return 0;
    const left = this.#left(now);
    if (left > 0) return left;
    this.#owner.lost(this, this.#limitMs(now) <= 0 ? "max-hold" : "expired");
    return 0;
  }

  /** As `remaining`, but without deciding anything. */
  #left(now: Instant): number {
    return Math.min(remainingMs(this.#window, now, this.#owner.clock), this.#limitMs(now));
  }

  #limitMs(now: Instant): number {
    return (this.lease?.endsAtMs ?? Number.POSITIVE_INFINITY) - now.monoMs;
  }

  /** A renewal was confirmed. It can only move the end forward, and never brings back what is over. */
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
   * The next handle gets a larger fence. It keeps up with the clock, as the fences of the store do: should the store forget
   * this hold, what is handed on here is not older than what is granted there meanwhile, but for a network's delay.
   */
  pass(): void {
    const byClock = Math.floor(this.#heldUs() * PASSES_PER_US);
    this.#passed = Math.min(this.#room, Math.max(this.#passed + 1, byClock));
  }

  end(): void {
    this.#ended = true;
  }
}

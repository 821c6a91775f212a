// One grant of the store as this process keeps it: its window, its fences, and the handle that uses it at the moment.
// A hold outlives its handles when it is passed from task to task. It ends once and for ever (P6).

import type { HeldLease } from "./lease.ts";
import type { Shape } from "./options.ts";
import type { Grant, LossReason, Request } from "./store.ts";
import type { Instant } from "./system.ts";
import { type Clock, remainingMs, type Window } from "./window.ts";

/** Told when a hold finds out by itself that it is over. */
export interface HoldKeeper {
  readonly clock: Clock;
  now(): Instant;
  lost(hold: Hold, reason: LossReason, detail?: string): void;
}

/** Less than one, because the store's clock may run slower than ours. */
const PASSES_PER_US = 0.95;

/** The line whose tasks want what this hold holds. */
export interface HoldLine {
  pass(hold: Hold): boolean;
  ended(hold: Hold): void;
}

export class Hold {
  readonly request: Request;
  readonly shape: Shape;
  readonly cookie: unknown;
  /** When the store's grant arrived, by the monotonic clock: the hand-off slice counts from here. */
  readonly grantedAtMs: number;
  readonly #keeper: HoldKeeper;
  readonly #firstFences: readonly bigint[];
  readonly #room: number;
  #passed = 0;
  #window: Window;
  #ended = false;
  lease: HeldLease | null = null;
  /** Where it may be handed on. */
  line: HoldLine | null = null;
  ttlMs: number;
  /** The grant counts from a heartbeat and is short, or must be confirmed: to be renewed before anything else. */
  readonly provisional: boolean;
  readonly confirm: boolean;
  endangered = false;
  /** A record that says what its holder waits for is not handed on: the note would be another's. */
  noted = false;

  constructor(keeper: HoldKeeper, request: Request, shape: Shape, grant: Grant, sentAt: Instant) {
    this.#keeper = keeper;
    this.request = request;
    this.shape = shape;
    this.cookie = grant.cookie;
    this.#firstFences = grant.fences;
    this.#room = grant.fenceRoom;
    this.#window = { since: sentAt, validMs: grant.validMs };
    this.grantedAtMs = keeper.now().monoMs;
    this.ttlMs = shape.ttlMs;
    this.provisional = grant.validMs < shape.ttlMs;
    this.confirm = grant.confirm === true;
  }

  get window(): Window {
    return this.#window;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The fences in use, in the order of `request.keys`. */
  get fences(): readonly bigint[] {
    if (this.#passed === 0) return this.#firstFences;
    const passed = BigInt(this.#passed);
    return this.#firstFences.map((fence) => fence + passed);
  }

  /** At most one hand-off, and one more for each microsecond: by the clock alone a store knows which fences a vanished holder may have used. */
  get hasRoom(): boolean {
    const passedUs = (this.#keeper.now().monoMs - this.grantedAtMs) * 1_000;
    return this.#passed < Math.min(this.#room, 1 + passedUs * PASSES_PER_US);
  }

  /** ms for which this hold is certain, by all clocks and by its lease's own limit; 0 latches the loss. */
  remaining(now: Instant = this.#keeper.now()): number {
    if (this.#ended) return 0;
    const left = this.#left(now);
    if (left > 0) return left;
    this.#keeper.lost(this, this.#limitMs(now) <= 0 ? "max-hold" : "expired");
    return 0;
  }

  /** As `remaining`, but without deciding anything. */
  #left(now: Instant): number {
    return Math.min(remainingMs(this.#window, now, this.#keeper.clock), this.#limitMs(now));
  }

  #limitMs(now: Instant): number {
    return (this.lease?.endsAtMs ?? Number.POSITIVE_INFINITY) - now.monoMs;
  }

  /** A renewal was confirmed. It can only move the end forward, and never brings back what is over. */
  renewed(sentAt: Instant, validMs: number): boolean {
    if (this.remaining() === 0) return false;
    const window = { since: sentAt, validMs };
    const now = this.#keeper.now();
    if (remainingMs(window, now, this.#keeper.clock) > remainingMs(this.#window, now, this.#keeper.clock)) {
      this.#window = window;
      this.endangered = false;
    }
    return true;
  }

  /** The next handle gets the next fence. */
  pass(): void {
    this.#passed += 1;
  }

  end(): void {
    this.#ended = true;
  }
}

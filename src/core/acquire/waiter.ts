// One call that waits in a local queue, and the list of them. A waiter settles exactly once and leaves no
// timer and no listener behind, because a signal may outlive a thousand waits.

import { onAbort } from "../util/abort-listener.ts";
import type { Actor } from "../lease/actor.ts";
import { DueEntry, type DueLists } from "../util/due-lists.ts";
import type { LockError } from "../errors.ts";
import type { HeldLease } from "../lease/lease.ts";
import type { AcquireSpec } from "../options.ts";
import { abortedError } from "./acquire-errors.ts";

/** The queue of a waiter. */
export interface WaiterQueue {
  expired(waiter: Waiter): void;
  leave(waiter: Waiter, error: LockError): void;
}

export class Waiter extends DueEntry {
  readonly keys: readonly string[];
  readonly spec: AcquireSpec;
  readonly actor: Actor;
  readonly sinceMs: number;
  readonly deadlineMs: number;
  /** The event `waiting` was emitted. */
  announced = false;
  /** Called when the waiter settles. */
  onEnd: (() => void) | null = null;
  #queue: WaiterQueue | null = null;
  #deadlines: DueLists<Waiter> | null = null;
  #resolve: ((lease: HeldLease) => void) | null = null;
  #reject: ((error: LockError) => void) | null = null;
  #offAbort: (() => void) | null = null;

  constructor(keys: readonly string[], spec: AcquireSpec, actor: Actor, nowMs: number, deadlineMs: number) {
    super();
    this.keys = keys;
    this.spec = spec;
    this.actor = actor;
    this.sinceMs = nowMs;
    this.deadlineMs = deadlineMs;
  }

  get pending(): boolean {
    return this.#resolve !== null;
  }

  /** The deadlines of all waiters share one timer. The acquisition of the queue keeps the process alive. */
  wait(
    queue: WaiterQueue,
    deadlines: DueLists<Waiter>,
    resolve: (lease: HeldLease) => void,
    reject: (error: LockError) => void,
  ): void {
    this.#queue = queue;
    this.#resolve = resolve;
    this.#reject = reject;
    if (this.deadlineMs !== Number.POSITIVE_INFINITY) {
      this.#deadlines = deadlines;
      deadlines.set(this, this.spec.waitMs, this.deadlineMs);
    }
    const { signal } = this.spec;
    if (signal !== null) {
      this.#offAbort = onAbort(signal, () => this.#queue?.leave(this, abortedError(this.keys, signal)));
    }
  }

  /** The deadline has passed. */
  expire(): void {
    this.#queue?.expired(this);
  }

  /** Rejects the call early, because waiting would never end. */
  refuse(error: LockError): void {
    this.#queue?.leave(this, error);
  }

  granted(lease: HeldLease): void {
    const resolve = this.#resolve;
    this.#end();
    resolve?.(lease);
  }

  refused(error: LockError): void {
    const reject = this.#reject;
    this.#end();
    reject?.(error);
  }

  #end(): void {
    this.#resolve = null;
    this.#reject = null;
    this.#deadlines?.delete(this);
    this.#offAbort?.();
    this.onEnd?.();
  }
}

/** A FIFO list. A waiter that leaves from the middle stays in the array and is skipped later. */
export class WaiterList {
  #waiters: (Waiter | null)[] = [];
  readonly #places = new Map<Waiter, number>();
  #first = 0;

  get size(): number {
    return this.#places.size;
  }

  get head(): Waiter | null {
    while (this.#first < this.#waiters.length) {
      const waiter = this.#waiters[this.#first];
      if (waiter !== null && waiter !== undefined) return waiter;
      this.#first += 1;
    }
    return null;
  }

  /** The first waiters, at most `most`. */
  first(most: number): Waiter[] {
    const first: Waiter[] = [];
    for (let at = this.#first; at < this.#waiters.length && first.length < most; at += 1) {
      const waiter = this.#waiters[at];
      if (waiter !== null && waiter !== undefined) first.push(waiter);
    }
    return first;
  }

  all(): Waiter[] {
    return [...this.#places.keys()];
  }

  push(waiter: Waiter): void {
    if (this.#first > 1_024 && this.#first * 2 > this.#waiters.length) this.#compact();
    this.#places.set(waiter, this.#waiters.length);
    this.#waiters.push(waiter);
  }

  remove(waiter: Waiter): void {
    const place = this.#places.get(waiter);
    if (place === undefined) return;
    this.#places.delete(waiter);
    this.#waiters[place] = null;
    if (this.#places.size === 0) {
      this.#waiters = [];
      this.#first = 0;
    }
  }

  #compact(): void {
    this.#waiters = this.#waiters.slice(this.#first);
    this.#first = 0;
    this.#waiters.forEach((waiter, place) => {
      if (waiter !== null) this.#places.set(waiter, place);
    });
  }
}

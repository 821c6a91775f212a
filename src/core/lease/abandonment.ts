// Abandons requests in the store: every id that was lost, timed out or aborted, until the store has
// acknowledged it (P6, P8). Otherwise an unknown grant would keep its key until its ttl ends.
//
// One sweep serves all ids, so that an outage of any length costs bounded memory and bounded work (P20):
//
// 1. An id that was certainly not sent is not added; see acquisition.ts and first-attempt.ts. The store
//    may also know that for a request that timed out while it waited for a connection (`forgetUnsent`).
// 2. One call is in flight at a time, for at most 100 ids. Full batches are paced, so that a store that
//    is back gets no burst.
// 3. A call that fails delays the next one: 100 ms, doubled up to 5 s, with jitter. Any answer of the
//    store to another call ends the delay.
// 4. An id that the store rejects while it acknowledges others (a damaged record) is retried with a delay
//    of its own, and dropped when its lease has ended anyway: ttl + grace after it was added. The same
//    applies to a call that the store rejects permanently, for example because of a missing right. While
//    the store does not answer, no id is dropped: when a frozen server continues, it executes the
//    attempts in its socket, and only a later abandonment undoes their grants.
// 5. At most 10,000 ids wait. A further id replaces the one whose lease ends first.
//
// With n ids waiting, `add` and the drop of rule 5 cost O(log n), and a batch of 100 costs O(100 log n).
// At n = 10,000 the list takes about 5 MB, `add` takes microseconds, and a store that is back gets
// all ids within about 5 s.

import { type Caller, callTimeoutMs } from "../util/store-call.ts";
import { DueQueue } from "../util/due-queue.ts";
import { LockError } from "../errors.ts";
import type { OpenStore, Request } from "../store.ts";
import type { System } from "../system.ts";

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
const LARGEST_BATCH = 100;
const MOST_PENDING = 10_000;
/** After a full batch: at most 2,000 ids per second. */
const PACE_MS = 50;

interface Pending {
  readonly request: Request;
  /** When its lease ends without a release. Infinity if a session keeps the key. */
  readonly overAtMs: number;
  /** How often the store has rejected this id. */
  refusals: number;
}

export class Abandonment {
  readonly #store: OpenStore;
  readonly #caller: Caller;
  readonly #system: System;
  readonly #byId = new Map<string, Pending>();
  /** The ids by the time of their next try, without those of the call in flight. */
  readonly #tries = new DueQueue<Pending>();
  /** The same ids, by the end of their leases. */
  readonly #ends = new DueQueue<Pending>();
  #phase: "idle" | "calling" | "waiting" | "stopped" = "idle";
  /** How many calls have failed since the last answer. */
  #failures = 0;
  /** The earliest time of the next call. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: () => void = () => {};
  #settled: (() => void)[] = [];

  constructor(store: OpenStore, caller: Caller, system: System) {
    this.#store = store;
    this.#caller = caller;
    this.#system = system;
  }

  /** How many ids the store has not acknowledged. */
  get size(): number {
    return this.#byId.size;
  }

  /** Adds a request that may have been sent and is not wanted any more. */
  add(request: Request): void {
    if (this.#phase === "stopped" || this.#byId.has(request.id)) return;
    if (this.#store.forgetUnsent?.(request) === true) return;
    if (this.#byId.size >= MOST_PENDING) this.#dropFirstToEnd();
    const nowMs = this.#system.monoMs();
    const isLease = this.#store.guarantees.ends === "lease";
    const overAtMs = isLease ? nowMs + request.ttlMs + request.graceMs : Number.POSITIVE_INFINITY;
    const pending = { request, overAtMs, refusals: 0 };
    this.#byId.set(request.id, pending);
    this.#enqueue(pending, nowMs);
    // Respect the pause after a failure or a full batch.
    if (this.#phase !== "calling" && this.#notBeforeMs <= nowMs) this.#send();
  }

  /** Resolves when nothing is pending any more, or after `ms`. */
  settled(ms: number): Promise<void> {
    if (this.#byId.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#system.after(ms, resolve);
      this.#settled.push(() => {
        cancel();
        resolve();
      });
    });
  }

  stop(): void {
    this.#phase = "stopped";
    this.#stopWaiting();
    this.#byId.clear();
    this.#tries.clear();
    this.#ends.clear();
  }

  #enqueue(pending: Pending, atMs: number): void {
    this.#tries.set(pending, atMs);
    this.#ends.set(pending, pending.overAtMs);
  }

  #send(): void {
    this.#stopWaiting();
    const batch = this.#tries.takeDue(this.#system.monoMs(), LARGEST_BATCH);
    if (batch.length === 0) return this.#next(0);
    for (const pending of batch) this.#ends.delete(pending);
    this.#phase = "calling";
    const requests = batch.map(({ request }) => request);
    const key = requests.length === 1 ? requests[0]?.keys[0] : undefined;
    const timeoutMs = Math.max(...requests.map(({ ttlMs }) => callTimeoutMs(ttlMs)));
    this.#caller
      .call("abandon", key, timeoutMs, (io) => this.#store.abandon(requests, io))
      .then(
        (refused) => this.#answered(batch, new Set(refused.map(({ id }) => id))),
        (error: unknown) => this.#failed(batch, LockError.is(error) && !error.retryable),
      );
  }

  #answered(batch: readonly Pending[], refused: ReadonlySet<string>): void {
    if (this.#phase === "stopped") return;
    this.#failures = 0;
    const nowMs = this.#system.monoMs();
    for (const pending of batch) {
      if (!refused.has(pending.request.id)) {
        this.#byId.delete(pending.request.id);
      } else if (pending.overAtMs <= nowMs) {
        this.#drop(pending);
      } else {
        this.#enqueue(pending, nowMs + this.#delayMs(pending.refusals));
        pending.refusals += 1;
      }
    }
    this.#next(batch.length === LARGEST_BATCH ? PACE_MS : 0);
  }

  #failed(batch: readonly Pending[], isPermanent: boolean): void {
    if (this.#phase === "stopped") return;
    const nowMs = this.#system.monoMs();
    for (const pending of batch) {
      if (isPermanent && pending.overAtMs <= nowMs) this.#drop(pending);
      // After all others, so that each of them is tried first.
      else this.#enqueue(pending, nowMs);
    }
    this.#next(this.#delayMs(this.#failures));
    this.#failures += 1;
    // A store that answers other calls gets the next batch immediately.
    this.#caller.onAnswer = () => {
      if (this.#phase === "waiting") this.#next(0);
    };
  }

  /** Sends the next batch as soon as an id is due, after `pauseMs` at the earliest. */
  #next(pauseMs: number): void {
    this.#stopWaiting();
    const nowMs = this.#system.monoMs();
    this.#notBeforeMs = nowMs + pauseMs;
    const first = this.#tries.first();
    if (first === undefined) {
      this.#phase = "idle";
      if (this.#byId.size === 0) this.#tellSettled();
      return;
    }
    const inMs = Math.max(this.#notBeforeMs, first.dueMs) - nowMs;
    if (inMs <= 0) return this.#send();
    this.#phase = "waiting";
    this.#cancelTimer = this.#system.after(inMs, () => this.#send(), "background");
  }

  #stopWaiting(): void {
    this.#cancelTimer();
    this.#caller.onAnswer = null;
  }

  #delayMs(times: number): number {
    return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** times) * (0.75 + this.#system.random() / 2);
  }

  #dropFirstToEnd(): void {
    const first = this.#ends.first();
    if (first !== undefined) this.#drop(first.entry);
  }

  /** Drops an id. Its grant, if any, ends with its ttl. */
  #drop(pending: Pending): void {
    this.#tries.delete(pending);
    this.#ends.delete(pending);
    this.#byId.delete(pending.request.id);
    this.#store.forget?.(pending.request);
  }

  #tellSettled(): void {
    const settled = this.#settled;
    this.#settled = [];
    for (const resolve of settled) resolve();
  }
}

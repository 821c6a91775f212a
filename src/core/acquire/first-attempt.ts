// The first attempt of a call, while no task of this process waits for the keys: one object for the call,
// its request and, once it is granted, the place that its hold has among the queues. It makes no timer,
// no signal and no promise but the caller's.
//
// Phases:
// - "asking": the attempt is under way.
// - "queued": a caller that waits was told "busy", got no answer, or another waiter came for the key
//   meanwhile. The local queue goes on with the same request, and gets the answer that is still under
//   way.
// - "held": granted, and nobody else of this process wants the key.
// - "over": the call has failed, or was told "busy" and does not wait.

import type { FirstAnswer } from "./acquisition.ts";
import type { Actor } from "../lease/actor.ts";
import { anyAnswer, Call, callTimeoutMs, named } from "../util/store-call.ts";
import { isDisconnected, isUnsent, type LockError, StoreUnavailableError } from "../errors.ts";
import type { Hold, HoldQueue } from "../lease/hold.ts";
import type { LockManager } from "./lock-manager.ts";
import { showKey } from "../key.ts";
import type { HeldLease } from "../lease/lease.ts";
import { isPlain, type AcquireSpec } from "../options.ts";
import { makeRequest, unconfirmedError } from "./request.ts";
import type { AttemptAnswer, Busy, Request } from "../store.ts";
import type { Instant } from "../system.ts";

/** A lease, or the "busy" answer if the caller does not wait. */
export type Outcome = HeldLease | { readonly busy: Busy };

export class FirstAttempt extends Call implements HoldQueue {
  readonly keys: readonly string[];
  readonly spec: AcquireSpec;
  readonly actor: Actor;
  readonly request: Request;
  sinceMs = 0;
  readonly #manager: LockManager;
  /** Null after the call has settled: it would keep the handle of the lease from being garbage-collected. */
  #caller: { resolve(outcome: Outcome): void; reject(error: LockError): void } | null;
  #phase: "asking" | "queued" | "held" | "over" = "asking";
  #sentAt: Instant | null = null;
  #hold: Hold | null = null;
  /** Receives the answer if the request was queued in the meantime. */
  #resolve: ((answer: AttemptAnswer) => void) | null = null;
  #reject: ((error: LockError) => void) | null = null;

  /** `queue`: whether the caller waits. */
  constructor(
    manager: LockManager,
    keys: readonly string[],
    spec: AcquireSpec,
    actor: Actor,
    queue: boolean,
    caller: { resolve(outcome: Outcome): void; reject(error: LockError): void },
  ) {
    super(manager.system, "acquire", keys[0], callTimeoutMs(spec.ttlMs));
    this.keys = keys;
    this.spec = spec;
    this.actor = actor;
    this.#manager = manager;
    this.#caller = caller;
    this.request = makeRequest(keys, spec, spec.label, actor.name, manager.system.randomId(), 1, queue);
  }

  get isAsking(): boolean {
    return this.#phase === "asking";
  }

  /** The hold, while no other call of this process wants the key. */
  get hold(): Hold | null {
    return this.#hold;
  }

  start(): void {
    const { caller, holds } = this.#manager;
    const sentAt = holds.now();
    this.#sentAt = sentAt;
    this.sinceMs = sentAt.monoMs;
    if (caller.isSilent("acquire", sentAt.monoMs)) {
      caller.rejectUnsent("acquire", this.keys[0]).catch((error: LockError) => this.#failed(error));
      return;
    }
    const yielded = caller.begin(this, sentAt.monoMs);
    if (yielded === null) this.#send();
    else void yielded.then(() => this.#send());
  }

  /** Rejects the call now, and abandons the request, whatever the outcome of the attempt is. */
  stop(error: LockError): void {
    this.#manager.holds.abandonment.add(this.request);
    this.#end(error);
  }

  /** Hands the request over to the local queue, which gets the answer. */
  enqueue(): FirstAnswer {
    this.#phase = "queued";
    const answer = new Promise<AttemptAnswer>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    return { request: this.request, sentAt: this.#sentAt as Instant, answer };
  }

  /** The local queue has a lease for this call. */
  granted(lease: HeldLease): void {
    this.#settleCaller(lease);
  }

  refused(error: LockError): void {
    const caller = this.#caller;
    this.#caller = null;
    caller?.reject(error);
  }

  /** No other call of this process waits for the key. */
  pass(_hold: Hold): boolean {
    return false;
  }

  ended(_hold: Hold): void {
    this.#phase = "over";
    this.#manager.forget(this);
  }

  protected override expired(error: LockError): void {
    this.#failed(error);
  }

  #send(): void {
    const { store } = this.#manager;
    const isSimple = this.keys.length === 1 && isPlain(this.spec);
    try {
      if (isSimple && store.direct !== undefined) {
        store.direct.attempt(this.request, (error, answer) => this.#settle(error, answer));
      } else {
        store.attempt(this.request, this).then(
          (answer) => this.#settle(null, answer),
          (error: unknown) => this.#settle(error, null),
        );
      }
    } catch (error) {
      this.#settle(error, null);
    }
  }

  #settle(error: unknown, answer: AttemptAnswer | null): void {
    const { caller, store } = this.#manager;
    if (answer !== null) {
      if (caller.answered(this)) this.#answered(answer);
      return;
    }
    if (isDisconnected(error) && this.list !== null) {
      // A call that does not wait can use only a grant. After any other answer the first try may still be
      // granted, so the request must be abandoned.
      const settles = this.request.queue ? anyAnswer : (again: AttemptAnswer): boolean => "granted" in again;
      const repeated = caller.repeat(this, (io) => store.attempt(this.request, io), error, settles);
      repeated.then(
        (late) => this.#settle(null, late),
        (failure: unknown) => this.#giveUp(failure),
      );
    } else {
      this.#giveUp(error);
    }
  }

  #giveUp(error: unknown): void {
    if (this.#manager.caller.end(this)) this.#failed(named(error, "acquire", this.keys[0]));
  }

  #answered(answer: AttemptAnswer): void {
    if (this.#phase === "queued") return this.#resolve?.(answer);
    if (this.#phase !== "asking") return;
    if ("granted" in answer) {
      const { holds } = this.#manager;
      const now = holds.now();
      const hold = holds.begin(this.request, this.spec, answer.granted, this.#sentAt as Instant, now);
      if (hold !== null) return this.#take(hold, now);
    }
    if (this.request.queue) {
      this.#manager.enqueue(this);
      return this.#resolve?.(answer);
    }
    if ("busy" in answer) {
      this.#phase = "over";
      this.#manager.forget(this);
      return this.#settleCaller({ busy: answer.busy });
    }
    const { request } = this;
    const error =
      "unconfirmed" in answer
        ? unconfirmedError(request, answer.unconfirmed.why)
        : new StoreUnavailableError(
            `the grant of ${showKey(request.keys[0] as string)} had expired when it arrived`,
          );
    this.stop(error);
  }

  #take(hold: Hold, now: Instant): void {
    this.#phase = "held";
    this.#hold = hold;
    this.#settleCaller(this.#manager.adopt(this, hold, now));
  }

  /** The outcome is unknown, unless the attempt was not sent. */
  #failed(error: LockError): void {
    if (this.#phase === "queued") return this.#reject?.(error);
    if (this.#phase !== "asking") return;
    if (this.request.queue && error.retryable) {
      this.#manager.enqueue(this);
      return this.#reject?.(error);
    }
    // The call does not hold the key (P8). Abandon the request until the store has acknowledged that.
    if (isUnsent(error)) this.#manager.store.forget?.(this.request);
    else this.#manager.holds.abandonment.add(this.request);
    this.#end(error);
  }

  #end(error: LockError): void {
    this.#phase = "over";
    this.#manager.forget(this);
    this.refused(error);
  }

  #settleCaller(outcome: Outcome): void {
    const caller = this.#caller;
    this.#caller = null;
    caller?.resolve(outcome);
  }
}

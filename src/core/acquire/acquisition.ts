// The waiting loop. An acquisition is one request in the store, made for a local queue. It attempts, and
// while the store answers "busy" it waits for a notification, for the store's hint or for `lastTry`. The
// local queue knows deadlines and callers; an acquisition does not.
//
// 1. Attempt. If it is granted, done. If it is rejected permanently, failed.
// 2. If it is busy for the first time, subscribe and *then* attempt again, so that no notification is
//    missed.
// 3. Wait for a notification, for the hint (the heartbeat) or for `lastTry`. A notification grants
//    nothing.
// 4. Continue with 1, with the same id and the next seq. Also repeat an unknown outcome, because attempts
//    are idempotent (P8).

import { anyAnswer, callTimeoutMs, type Caller } from "../util/store-call.ts";
import { isUnsent, type LockError } from "../errors.ts";
import type { Hold } from "../lease/hold.ts";
import type { HoldRegistry } from "../lease/hold-registry.ts";
import type { LockSpec } from "../options.ts";
import { makeRequest, unconfirmedError } from "./request.ts";
import type { AttemptAnswer, Busy, Grant, OpenStore, Request } from "../store.ts";
import type { Instant, System } from "../system.ts";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;

export interface AcquisitionListener {
  granted(hold: Hold): void;
  failed(error: LockError): void;
  /** The store has answered "busy" for the first time. */
  busy(): void;
}

export interface AcquisitionContext {
  readonly store: OpenStore;
  readonly caller: Caller;
  readonly system: System;
  readonly holds: HoldRegistry;
}

/** The parameters of an acquisition. */
export interface AcquisitionParams {
  readonly keys: readonly string[];
  readonly spec: LockSpec;
  readonly label: string;
  readonly actor: string;
}

/** A first attempt that was sent before its acquisition existed. */
export interface FirstAnswer {
  readonly request: Request;
  readonly sentAt: Instant;
  readonly answer: Promise<AttemptAnswer>;
}

export class Acquisition {
  readonly spec: LockSpec;
  readonly #deps: AcquisitionContext;
  readonly #listener: AcquisitionListener;
  readonly #spec: AcquisitionParams;
  #request: Request;
  /** Until the acquisition has taken it over. */
  #first: FirstAnswer | null;
  #state: "running" | "settled" = "running";
  #unsubscribe: (() => void) | null = null;
  #woken = false;
  #resume: (() => void) | null = null;
  #attempting = false;
  /** An attempt with the current id may have reached the store, or may still reach it. */
  #maybeSent: boolean;
  /** The last answer was "busy". */
  #isBusy = false;
  #failures = 0;
  /**
   * A grant was just released. The next "busy" answer may be caused by it, so it does not replace the
   * last error.
   */
  #givenBack = false;
  #tries: (() => void)[] = [];
  #restarts = 0;
  /** The last answer, for errors: the holders, or why the store failed. */
  lastBusy: Busy | null = null;
  lastError: LockError | null = null;

  constructor(
    deps: AcquisitionContext,
    spec: AcquisitionParams,
    listener: AcquisitionListener,
    first: FirstAnswer | null = null,
  ) {
    this.#deps = deps;
    this.#spec = spec;
    this.#listener = listener;
    this.spec = spec.spec;
    this.#first = first;
    this.#request = first?.request ?? this.#makeRequest(deps.system.randomId(), 0);
    this.#maybeSent = first !== null;
  }

  /** `expectBusy`: this process holds the key, so subscribing before the first attempt saves an attempt. */
  start(expectBusy: boolean): void {
    // The loop reports through the listener; it never rejects.
    void this.#run(expectBusy);
  }

  /** Attempts immediately. Resolves when the store has answered or failed. */
  lastTry(): Promise<void> {
    if (this.#state === "settled") return Promise.resolve();
    return new Promise((resolve) => {
      this.#tries.push(resolve);
      if (!this.#attempting) this.#wake();
    });
  }

  /** Ends the acquisition. The store ends the request, also if an attempt is still in flight. */
  stop(): void {
    if (!this.#settle()) return;
    if (this.#maybeSent) this.#deps.holds.abandonment.add(this.#request);
    else this.#deps.store.forget?.(this.#request);
  }

  async #run(expectBusy: boolean): Promise<void> {
    if (expectBusy) await this.#subscribe();
    while (this.#state === "running") {
      const againMs = await this.#attempt();
      this.#tried();
      if (this.#state !== "running" || againMs === null) continue;
      if (this.#unsubscribe === null && this.#deps.store.subscribe !== undefined && this.#isBusy) {
        await this.#subscribe();
        continue;
      }
      if (this.#tries.length === 0) await this.#wait(againMs);
    }
    this.#tried();
  }

  /** One attempt. Returns how long to wait before the next, or null to attempt again immediately. */
  async #attempt(): Promise<number | null> {
    const { store, caller, holds } = this.#deps;
    this.#woken = false;
    const first = this.#first;
    this.#first = null;
    if (first === null) this.#request = this.#makeRequest(this.#request.id, this.#request.seq + 1);
    const request = this.#request;
    const sentAt = first?.sentAt ?? holds.now();
    const maybeSent = this.#maybeSent && first === null;
    this.#maybeSent = true;
    this.#attempting = true;
    this.#isBusy = false;
    try {
      const answer = await (first?.answer ??
        caller.call(
          "acquire",
          request.keys[0],
          callTimeoutMs(request.ttlMs),
          (io) => store.attempt(request, io),
          anyAnswer,
        ));
      this.#failures = 0;
      if (this.#state !== "running") return null;
      if ("ended" in answer) return this.#startOver();
      if ("unconfirmed" in answer) return this.#giveBack(unconfirmedError(request, answer.unconfirmed.why));
      if (!this.#givenBack) this.lastError = null;
      this.#givenBack = false;
      if ("granted" in answer) return this.#take(answer.granted, sentAt) ? null : 0;
      if (this.lastBusy === null) this.#listener.busy();
      this.lastBusy = answer.busy;
      this.#isBusy = true;
      return answer.busy.againMs;
    } catch (error) {
      if (isUnsent(error) && this.#request.id === request.id) this.#maybeSent = maybeSent;
      return this.#failed(error as LockError);
    } finally {
      this.#attempting = false;
    }
  }

  #makeRequest(id: string, seq: number): Request {
    const { keys, spec, label, actor } = this.#spec;
    return makeRequest(keys, spec, label, actor, id, seq, true);
  }

  #take(grant: Grant, sentAt: Instant): boolean {
    const hold = this.#deps.holds.begin(this.#request, this.spec, grant, sentAt);
    if (hold === null) return false;
    this.#settle();
    this.#listener.granted(hold);
    return true;
  }

  /** The grant is not safe to use. It is abandoned, and a new id tries again. */
  #giveBack(why: LockError | null): number {
    this.lastError = why;
    this.#givenBack = true;
    this.#deps.holds.abandonment.add(this.#request);
    return this.#startOver() ?? FIRST_RETRY_MS;
  }

  /** The store has ended the id, for example by a revoke. A new id goes to the end of the queue. */
  #startOver(): number | null {
    this.#restarts += 1;
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#request = this.#makeRequest(this.#deps.system.randomId(), 0);
    this.#maybeSent = false;
    return this.#restarts === 1 ? null : Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#restarts);
  }

  #failed(error: LockError): number | null {
    if (this.#state !== "running") return null;
    this.lastError = error;
    if (!error.retryable) {
      this.stop();
      this.#listener.failed(error);
      return null;
    }
    const backoff = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures);
    this.#failures += 1;
    return backoff * (0.5 + this.#deps.system.random() / 2);
  }

  async #subscribe(): Promise<void> {
    const request = this.#request;
    const { store, caller } = this.#deps;
    if (store.subscribe === undefined) return;
    try {
      // Ignore a notification for a request that has settled or was replaced by another one.
      const off = await caller.call("subscription", request.keys[0], callTimeoutMs(request.ttlMs), () =>
        (store.subscribe as NonNullable<OpenStore["subscribe"]>)(request, () => {
          if (this.#request.id === request.id) this.#wake();
        }),
      );
      if (this.#state === "running" && this.#request.id === request.id) this.#unsubscribe = off;
      else off();
    } catch (error) {
      // Without notifications the acquisition still attempts again when the store's hint says so.
      this.lastError = error as LockError;
      this.#unsubscribe = () => {};
    }
  }

  #wake(): void {
    if (this.#state !== "running") return;
    this.#woken = true;
    this.#resume?.();
  }

  #wait(ms: number): Promise<void> {
    if (this.#woken) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#deps.system.after(ms, () => this.#resume?.());
      this.#resume = () => {
        this.#resume = null;
        cancel();
        resolve();
      };
    });
  }

  #tried(): void {
    const tries = this.#tries;
    this.#tries = [];
    for (const resolve of tries) resolve();
  }

  /** Ends the loop. Returns false if it had ended before. */
  #settle(): boolean {
    if (this.#state === "settled") return false;
    this.#state = "settled";
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#resume?.();
    return true;
  }
}

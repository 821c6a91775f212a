// Renews the leases of a process: all due leases go to the store in one batch. It never acquires, and
// never decides that a lease has expired: after an unknown answer the window simply keeps shrinking.

import { anyAnswer, type Caller, callTimeoutMs } from "../util/store-call.ts";
import { DueLists } from "../util/due-lists.ts";
import { isDisconnected } from "../errors.ts";
import type { Hold, HoldDue } from "./hold.ts";
import { ServerClocks } from "./server-clocks.ts";
import type { ClockJump, LossReason, OpenStore, RenewAnswer, Request } from "../store.ts";
import type { Instant, System } from "../system.ts";
import { renewing, type RenewTrace, traced } from "../tracing.ts";
import { extendedGraceMs } from "./validity-window.ts";

const RENEW_SHARE = 1 / 3;
/** After an answer that did not move the end of the lease, try again after this share of the ttl. */
const RETRY_SHARE = 1 / 12;
const LONGEST_RETRY_MS = 2_000;
const JITTER_STEPS = 8;
/** Leases that are due within this share of their ttl join the batch. */
const BATCH_SHARE = 1 / 20;
const LONGEST_BATCH_MS = 500;
/** The most leases in one call. */
const LARGEST_BATCH = 1_000;
/** After a hand-off, the new holder is written into the record if it holds the lease for longer than this. */
const TELL_NEW_HOLDER_MS = 200;

export interface RenewalListener {
  now(): Instant;
  renewed(hold: Hold): void;
  jumped(jump: ClockJump): void;
  lost(hold: Hold, reason: LossReason, detail?: string): void;
}

export class Renewal {
  /** The clocks of the store's servers. */
  readonly clocks: ServerClocks;
  readonly #store: OpenStore;
  readonly #caller: Caller;
  readonly #listener: RenewalListener;
  readonly #system: System;
  readonly #dues: DueLists<HoldDue>;

  constructor(store: OpenStore, caller: Caller, system: System, listener: RenewalListener) {
    this.#store = store;
    this.#caller = caller;
    this.#system = system;
    this.#listener = listener;
    this.clocks = new ServerClocks((jump) => listener.jumped(jump));
    this.#dues = new DueLists<HoldDue>(system, (due) => this.#renewDue(due));
  }

  begin(hold: Hold): void {
    this.#schedule(hold);
  }

  /** Schedules a hold after a hand-off, with the options of its new lease. */
  passed(hold: Hold): void {
    this.#schedule(hold);
    if (!hold.lease?.spec.renew) return;
    const tellMs = this.#system.monoMs() + TELL_NEW_HOLDER_MS;
    if (tellMs < hold.window.since.monoMs + delayMs(hold))
      this.#dues.set(hold.renewalDue, TELL_NEW_HOLDER_MS, tellMs);
  }

  forget(hold: Hold): void {
    this.#dues.delete(hold.renewalDue);
  }

  /** Renews one hold immediately, for `extend`. Rejects if the store fails. */
  async now(hold: Hold, ttlMs: number): Promise<RenewAnswer> {
    const [answer] = await this.#send([hold], ttlMs);
    return answer as RenewAnswer;
  }

  stop(): void {
    this.#dues.stop();
  }

  #schedule(hold: Hold): void {
    if (!wantsRenewal(hold)) this.#dues.delete(hold.renewalDue);
    else this.#dues.set(hold.renewalDue, delayMs(hold), hold.window.since.monoMs + delayMs(hold));
  }

  #renewDue(due: readonly HoldDue[]): void {
    const shortest = due.reduce((term, { hold }) => Math.min(term, hold.termMs), Number.POSITIVE_INFINITY);
    const soonMs = Math.min(LONGEST_BATCH_MS, shortest * BATCH_SHARE);
    const soon = this.#dues.take(this.#system.monoMs() + soonMs);
    const all = [...due, ...soon].map(({ hold }) => hold);
    for (let i = 0; i < all.length; i += LARGEST_BATCH) {
      // Ignore the error: each hold was already scheduled again.
      this.#send(all.slice(i, i + LARGEST_BATCH), null).catch(() => {});
    }
  }

  #send(batch: readonly Hold[], ttlMs: number | null): Promise<readonly RenewAnswer[]> {
    const firstKeys = (): RenewTrace => ({ keys: batch.map((hold) => hold.request.keys[0] as string) });
    return traced(renewing, firstKeys, () => this.#renew(batch, ttlMs));
  }

  async #renew(batch: readonly Hold[], ttlMs: number | null): Promise<readonly RenewAnswer[]> {
    const sentAt = this.#listener.now();
    const timeoutMs = callTimeoutMs(Math.min(...batch.map((hold) => hold.termMs)));
    const items = batch.map((hold) => {
      const askedMs = ttlMs ?? requestedMs(hold, sentAt.monoMs);
      return {
        request: withGrace(hold.request, askedMs),
        cookie: hold.cookie,
        ttlMs: askedMs,
        lastFences: hold.fences,
        label: hold.lease?.label ?? hold.request.label,
      };
    });
    try {
      const key = batch.length === 1 ? batch[0]?.request.keys[0] : undefined;
      const answers = await this.#caller.call(
        "renewal",
        key,
        timeoutMs,
        (io) => this.#store.renew(items, io).then(connected),
        anyAnswer,
      );
      this.#readClocks(batch, answers, sentAt);
      batch.forEach((hold, i) => this.#take(hold, answers[i] ?? { state: "unknown" }, sentAt, ttlMs));
      return answers;
    } catch (error) {
      for (const hold of batch) this.#retry(hold);
      throw error;
    }
  }

  #readClocks(batch: readonly Hold[], answers: readonly RenewAnswer[], sentAt: Instant): void {
    const graceMs = Math.min(...batch.map((hold) => hold.request.graceMs));
    this.clocks.read(answers, graceMs, sentAt, this.#listener.now());
  }

  #take(hold: Hold, answer: RenewAnswer, sentAt: Instant, ttlMs: number | null): void {
    if (hold.ended) return;
    if (answer.state === "lost") {
      this.#listener.lost(hold, answer.reason, answer.detail);
    } else if (answer.state === "renewed" && hold.renewed(sentAt, answer.validMs)) {
      if (ttlMs !== null) hold.extended(sentAt, ttlMs);
      this.#schedule(hold);
      this.#listener.renewed(hold);
    } else {
      this.#retry(hold);
    }
  }

  #retry(hold: Hold): void {
    if (hold.ended || !wantsRenewal(hold)) return;
    const termMs = Math.min(hold.termMs, hold.window.validMs);
    // Round to steps, so that the retries of many leases need few lists.
    const jitter = 0.75 + Math.floor(this.#system.random() * JITTER_STEPS) / (2 * JITTER_STEPS);
    const inMs = Math.min(LONGEST_RETRY_MS, termMs * RETRY_SHARE) * jitter;
    this.#dues.set(hold.renewalDue, inMs, this.#system.monoMs() + inMs);
  }
}

/**
 * Rejects if the connection of a single renewal was lost, so that the call is repeated. In a batch, the
 * answers of the other renewals count, and the lost one is due again soon.
 */
function connected(answers: readonly RenewAnswer[]): readonly RenewAnswer[] {
  const [only] = answers;
  if (answers.length === 1 && only?.state === "unknown" && isDisconnected(only.cause)) throw only.cause;
  return answers;
}

/** How long after its send a hold is renewed. */
function delayMs(hold: Hold): number {
  return Math.min(hold.termMs, hold.window.validMs) * RENEW_SHARE;
}

/** Without `renew`, a holder still gets its whole ttl from a store that grants less at a time. */
function wantsRenewal(hold: Hold): boolean {
  return hold.lease === null || hold.lease.spec.renew || hold.owedMs(hold.window.since.monoMs) > 0;
}

/** A longer lease needs a longer grace: clocks that run at different rates drift apart for longer (P2). */
function withGrace(request: Request, ttlMs: number): Request {
  const graceMs = extendedGraceMs(request, ttlMs);
  return graceMs === request.graceMs ? request : { ...request, graceMs };
}

/** The ttl of a renewal: the whole ttl, or the rest of it without `renew`. */
function requestedMs(hold: Hold, nowMs: number): number {
  if (hold.lease === null || hold.lease.spec.renew) return hold.ttlMs;
  return Math.min(hold.ttlMs, hold.owedMs(nowMs));
}

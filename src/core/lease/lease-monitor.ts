// Notices in time that a lease is over (P7). One timer over all holds, independent of the renewing loop, so
// that a renewal which hangs cannot delay it. It only reads clocks; it never asks the store.
//
// The timer runs by the monotonic clock. The wall and boot clocks can run ahead of that clock when somebody
// sets the time or the machine was suspended. One check every 250 ms compares the clocks, and all holds are
// examined again only if a clock did run ahead. So 10,000 idle leases cost one check, not 10,000.

import { DueLists } from "../util/due-lists.ts";
import type { Hold, HoldDue } from "./hold.ts";
import type { LossReason } from "../store.ts";
import type { Instant, System } from "../system.ts";
import { type Clock, certainMs, signalMarginMs } from "./validity-window.ts";

/** With this share of the window left and no renewal confirmed, the holder is warned. */
const ENDANGERED_SHARE = 0.25;
/** The longest time until a suspended machine or a clock that was set is noticed, once the process runs. */
const CHECK_CLOCKS_MS = 250;
/** The wall clock has whole milliseconds: smaller differences are rounding. Less than any signal margin. */
const ROUNDING_MS = 1;

/** Differences of large clock readings are rounded: a shorter wait could end again at the same moment. */
const LEAST_MS = 0.1;

export interface LeaseMonitorListener {
  readonly clock: Clock;
  now(): Instant;
  all(): readonly Hold[];
  endangered(hold: Hold, remainingMs: number): void;
  lost(hold: Hold, reason: LossReason): void;
}

export class LeaseMonitor {
  readonly #system: System;
  readonly #listener: LeaseMonitorListener;
  readonly #dues: DueLists<HoldDue>;
  /** Cancels the next comparison of the clocks; null while none is due. */
  #cancelCheck: (() => void) | null = null;
  /** No hold's due time accounts for a smaller lead of these clocks over the monotonic clock. */
  #bootLeadMs = Number.POSITIVE_INFINITY;
  #wallLeadMs = Number.POSITIVE_INFINITY;

  constructor(system: System, listener: LeaseMonitorListener) {
    this.#system = system;
    this.#listener = listener;
    this.#dues = new DueLists<HoldDue>(system, (due) => {
      for (const { hold } of due) this.#examine(hold);
    });
  }

  /** Call it when a hold begins, and again when its end has moved nearer. */
  watch(hold: Hold, now: Instant = this.#listener.now()): void {
    this.#set(hold, now, hold.remaining(now));
    if (this.#listener.clock === "machine" || hold.ended) return;
    this.#lowerLeads(hold.window.since);
    this.#lowerLeads(now);
    this.#cancelCheck ??= this.#system.after(CHECK_CLOCKS_MS, () => this.#checkClocks(), "background");
  }

  forget(hold: Hold): void {
    this.#dues.delete(hold.lossDue);
  }

  stop(): void {
    this.#dues.stop();
    this.#cancelCheck?.();
    this.#cancelCheck = null;
  }

  #checkClocks(): void {
    this.#cancelCheck = null;
    const holds = this.#listener.all();
    const now = this.#listener.now();
    const ranAhead =
      now.bootMs - now.monoMs - this.#bootLeadMs > ROUNDING_MS ||
      now.wallMs - now.monoMs - this.#wallLeadMs > ROUNDING_MS;
    if (ranAhead || holds.length === 0) {
      this.#bootLeadMs = Number.POSITIVE_INFINITY;
      this.#wallLeadMs = Number.POSITIVE_INFINITY;
    }
    if (holds.length === 0) return;
    this.#lowerLeads(now);
    this.#cancelCheck = this.#system.after(CHECK_CLOCKS_MS, () => this.#checkClocks(), "background");
    if (ranAhead) for (const hold of holds) this.#examine(hold);
  }

  #lowerLeads(at: Instant): void {
    this.#bootLeadMs = Math.min(this.#bootLeadMs, at.bootMs - at.monoMs);
    this.#wallLeadMs = Math.min(this.#wallLeadMs, at.wallMs - at.monoMs);
  }

  #examine(hold: Hold): void {
    const now = this.#listener.now();
    const left = hold.remaining(now);
    if (hold.ended) return;
    if (left <= signalMarginMs(hold.window.validMs)) {
      const byLimit = hold.lease !== null && hold.lease.endsAtMs - now.monoMs <= left;
      this.#listener.lost(hold, byLimit ? "max-hold" : "expired");
      return;
    }
    if (!hold.endangered && left <= this.#dangerMs(hold)) {
      hold.endangered = true;
      this.#listener.endangered(hold, left);
    }
    this.#set(hold, now, left);
  }

  #set(hold: Hold, now: Instant, left: number): void {
    if (hold.ended) return;
    const { validMs } = hold.window;
    const next = hold.endangered ? signalMarginMs(validMs) : this.#dangerMs(hold);
    this.#dues.set(hold.lossDue, validMs - next, now.monoMs + Math.max(LEAST_MS, left - next));
  }

  #dangerMs(hold: Hold): number {
    return certainMs(hold.window.validMs, this.#listener.clock) * ENDANGERED_SHARE;
  }
}

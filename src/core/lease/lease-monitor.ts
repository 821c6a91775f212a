// Notices in time that a lease has expired (P7). It has one timer for all holds, independent of the
// renewals, so that a hanging renewal cannot delay it. It only reads clocks and never asks the store.
//
// The timer runs by the monotonic clock. The wall clock and the boot clock can run ahead of it, when the
// time is set or the machine was suspended. One check every 250 ms compares the clocks, and all holds are
// examined again only if a clock did run ahead. So 10,000 idle leases cost one check, not 10,000.

import { DueLists } from "../util/due-lists.ts";
import type { Hold, HoldDue } from "./hold.ts";
import type { LossReason } from "../store.ts";
import type { Instant, System } from "../system.ts";
import { type Clock, certainMs, signalMarginMs } from "./validity-window.ts";

/** With this share of the window left and no confirmed renewal, the event `endangered` is emitted. */
const ENDANGERED_SHARE = 0.25;
/** The interval of the comparison of the clocks. */
const CHECK_CLOCKS_MS = 250;
/** Smaller differences are rounding, because the wall clock has whole ms. Less than any signal margin. */
const ROUNDING_MS = 1;

/**
 * The shortest timer. Differences of large clock values are rounded, so a shorter one might not move the
 * time.
 */
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
  /** Cancels the next comparison of the clocks. null if none is scheduled. */
  #cancelCheck: (() => void) | null = null;
  /** The smallest lead of these clocks over the monotonic clock that a due time of a hold is based on. */
  #bootLeadMs = Number.POSITIVE_INFINITY;
  #wallLeadMs = Number.POSITIVE_INFINITY;

  constructor(system: System, listener: LeaseMonitorListener) {
    this.#system = system;
    this.#listener = listener;
    this.#dues = new DueLists<HoldDue>(system, (due) => {
      for (const { hold } of due) this.#examine(hold);
    });
  }

  /** Starts to monitor a hold. Call it again when the end of the hold has moved nearer. */
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

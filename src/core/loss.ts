// Learning in time that a lease is over (P7). One alarm over all holds, independent of the renewing loop, so that a
// renewal which hangs cannot delay it. It only asks the clock; it never asks the store.

import { Alarm } from "./alarm.ts";
import type { Hold } from "./hold.ts";
import type { LossReason } from "./store.ts";
import type { Instant, System } from "./system.ts";
import { type Clock, certainMs, signalMarginMs } from "./window.ts";

/** With this share of the window left and no renewal confirmed, the holder is warned. */
const ENDANGERED_SHARE = 0.25;
/** A suspended machine or a clock that was set is noticed at the latest this long after it goes on. */
const LOOK_EVERY_MS = 250;

/** Differences of large clock readings are rounded; a wait of less would ring again and again at the same moment. */
const LEAST_MS = 0.1;

export interface LossListener {
  readonly clock: Clock;
  now(): Instant;
  endangered(hold: Hold, remainingMs: number): void;
  lost(hold: Hold, reason: LossReason): void;
}

export class LossWatch {
  readonly #listener: LossListener;
  readonly #alarm: Alarm<Hold>;

  constructor(system: System, listener: LossListener) {
    this.#listener = listener;
    this.#alarm = new Alarm<Hold>(system, (due) => {
      for (const hold of due) this.#look(hold);
    });
  }

  /** Call it when a hold begins, and again when its end has moved nearer. */
  watch(hold: Hold): void {
    const now = this.#listener.now();
    this.#set(hold, now, hold.remaining(now));
  }

  forget(hold: Hold): void {
    this.#alarm.delete(hold);
  }

  stop(): void {
    this.#alarm.stop();
  }

  #look(hold: Hold): void {
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
    const next = hold.endangered ? signalMarginMs(hold.window.validMs) : this.#dangerMs(hold);
    const inMs = Math.max(LEAST_MS, left - next);
    this.#alarm.set(
      hold,
      now.monoMs + (this.#listener.clock === "machine" ? inMs : Math.min(inMs, LOOK_EVERY_MS)),
    );
  }

  #dangerMs(hold: Hold): number {
    return certainMs(hold.window.validMs, this.#listener.clock) * ENDANGERED_SHARE;
  }
}

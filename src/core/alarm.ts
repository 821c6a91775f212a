// Many due times, one timer. Entries may be put off without touching the timer: it fires early, finds
// nothing due and is set again, so that an entry that lives for microseconds costs no timer at all. Costs:
// see due-queue.ts.

import { DueQueue } from "./due-queue.ts";
import type { System } from "./system.ts";

export class Alarm<Entry extends object> {
  readonly #system: System;
  readonly #ring: (due: readonly Entry[]) => void;
  readonly #entries = new DueQueue<Entry>();
  #armedForMs = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};

  /** The timer is a background one: what must keep the process alive waits on a timer of its own. */
  constructor(system: System, ring: (due: readonly Entry[]) => void) {
    this.#system = system;
    this.#ring = ring;
  }

  /** `dueMs` is a moment of the monotonic clock. Replaces an earlier one. */
  set(entry: Entry, dueMs: number): void {
    this.#entries.set(entry, dueMs);
    if (dueMs < this.#armedForMs) this.#arm(dueMs);
  }

  /** Whether it was still to come. */
  delete(entry: Entry): boolean {
    return this.#entries.delete(entry);
  }

  /** All entries due no later than `dueMs`; they are taken out. */
  take(dueMs: number): Entry[] {
    return this.#entries.takeDue(dueMs);
  }

  stop(): void {
    this.#entries.clear();
    this.#cancel();
    this.#armedForMs = Number.POSITIVE_INFINITY;
  }

  #arm(dueMs: number): void {
    this.#cancel();
    this.#armedForMs = dueMs;
    if (dueMs === Number.POSITIVE_INFINITY) return;
    this.#cancel = this.#system.after(dueMs - this.#system.monoMs(), () => this.#rang(), "background");
  }

  #rang(): void {
    const due = this.take(this.#system.monoMs());
    // Armed before anybody is told: whoever is told may set new entries, which then arm it earlier by themselves.
    this.#arm(this.#entries.first()?.dueMs ?? Number.POSITIVE_INFINITY);
    if (due.length > 0) this.#ring(due);
  }
}

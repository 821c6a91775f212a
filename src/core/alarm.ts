// Many due times, one timer. Entries may be put off without touching the timer: it rings early, finds nothing due and is
// set again, so that an entry that lives for microseconds costs two Map operations and no timer at all.

import type { System } from "./system.ts";

export class Alarm<Entry extends object> {
  readonly #system: System;
  readonly #ring: (due: readonly Entry[]) => void;
  readonly #dueMs = new Map<Entry, number>();
  #armedForMs = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};

  /** The timer is a background one: what must keep the process alive waits on a timer of its own. */
  constructor(system: System, ring: (due: readonly Entry[]) => void) {
    this.#system = system;
    this.#ring = ring;
  }

  /** `dueMs` is a moment of the monotonic clock. Replaces an earlier one. */
  set(entry: Entry, dueMs: number): void {
    this.#dueMs.set(entry, dueMs);
    if (dueMs < this.#armedForMs) this.#arm(dueMs);
  }

  /** Whether it was still to come. */
  delete(entry: Entry): boolean {
    return this.#dueMs.delete(entry);
  }

  /** All entries due no later than `dueMs`; they are taken out. */
  take(dueMs: number): Entry[] {
    const due: Entry[] = [];
    for (const [entry, at] of this.#dueMs) if (at <= dueMs) due.push(entry);
    for (const entry of due) this.#dueMs.delete(entry);
    return due;
  }

  stop(): void {
    this.#dueMs.clear();
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
    let next = Number.POSITIVE_INFINITY;
    for (const at of this.#dueMs.values()) next = Math.min(next, at);
    this.#arm(next);
    if (due.length > 0) this.#ring(due);
  }
}

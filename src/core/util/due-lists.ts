// Many due times at the price of a few timers. Entries with the same delay stand in one list, in the order of
// their due times, and each list has one timer. Entries of one delay come in that order by themselves, or
// nearly so: `set` and `delete` cost O(1), and a list that is idle costs nothing.
//
// A timer is not touched when its first entry is deleted or put off. It fires early, finds nothing due and is
// set again, so that an entry that lives for microseconds costs no timer at all.

import type { System } from "../system.ts";

/** An entry with its position in a list. */
export class DueEntry {
  dueMs = 0;
  list: DueList | null = null;
  previous: DueEntry | null = null;
  next: DueEntry | null = null;
}

class DueList {
  readonly delayMs: number;
  first: DueEntry | null = null;
  last: DueEntry | null = null;
  armedForMs: number = Number.POSITIVE_INFINITY;
  cancel: () => void = () => {};

  constructor(delayMs: number) {
    this.delayMs = delayMs;
  }

  insert(entry: DueEntry): void {
    let before = this.last;
    while (before !== null && before.dueMs > entry.dueMs) before = before.previous;
    const after = before === null ? this.first : before.next;
    entry.list = this;
    entry.previous = before;
    entry.next = after;
    if (before === null) this.first = entry;
    else before.next = entry;
    if (after === null) this.last = entry;
    else after.previous = entry;
  }

  remove(entry: DueEntry): void {
    const { previous, next } = entry;
    if (previous === null) this.first = next;
    else previous.next = next;
    if (next === null) this.last = previous;
    else next.previous = previous;
    entry.list = null;
    entry.previous = null;
    entry.next = null;
  }
}

export class DueLists<Entry extends DueEntry> {
  readonly #system: System;
  readonly #onDue: (due: readonly Entry[]) => void;
  readonly #lists = new Map<number, DueList>();
  #latest: DueList | null = null;

  /** The timers are background timers, which do not keep the process alive. */
  constructor(system: System, onDue: (due: readonly Entry[]) => void) {
    this.#system = system;
    this.#onDue = onDue;
  }

  /** `delayMs` chooses the list; `dueMs` is a moment of the monotonic clock. Replaces an earlier one. */
  set(entry: Entry, delayMs: number, dueMs: number): void {
    entry.list?.remove(entry);
    if (dueMs === Number.POSITIVE_INFINITY) return;
    entry.dueMs = dueMs;
    const list = this.#list(delayMs);
    list.insert(entry);
    if (dueMs < list.armedForMs) this.#arm(list, dueMs);
  }

  /** Removes an entry. Returns whether it was still due. */
  delete(entry: Entry): boolean {
    if (entry.list === null) return false;
    entry.list.remove(entry);
    return true;
  }

  /** Removes and returns all entries that are due no later than `dueMs`. */
  take(dueMs: number): Entry[] {
    const due: Entry[] = [];
    for (const list of this.#lists.values()) takeDue(list, dueMs, due);
    return due;
  }

  stop(): void {
    this.take(Number.POSITIVE_INFINITY);
    for (const list of this.#lists.values()) list.cancel();
    this.#lists.clear();
    this.#latest = null;
  }

  #list(delayMs: number): DueList {
    if (this.#latest?.delayMs === delayMs) return this.#latest;
    let list = this.#lists.get(delayMs);
    if (list === undefined) {
      list = new DueList(delayMs);
      this.#lists.set(delayMs, list);
    }
    this.#latest = list;
    return list;
  }

  #arm(list: DueList, dueMs: number): void {
    list.cancel();
    list.armedForMs = dueMs;
    list.cancel = this.#system.after(
      dueMs - this.#system.monoMs(),
      () => this.#timerFired(list),
      "background",
    );
  }

  #timerFired(list: DueList): void {
    const due: Entry[] = [];
    takeDue(list, this.#system.monoMs(), due);
    list.armedForMs = Number.POSITIVE_INFINITY;
    // Set the timer before the callback: the callback may add entries that need an earlier timer.
    if (list.first !== null) this.#arm(list, list.first.dueMs);
    else this.#forget(list);
    if (due.length > 0) this.#onDue(due);
  }

  /** Removes empty lists, because callers may use any number of different delays. */
  #forget(list: DueList): void {
    this.#lists.delete(list.delayMs);
    if (this.#latest === list) this.#latest = null;
  }
}

function takeDue(list: DueList, dueMs: number, into: DueEntry[]): void {
  for (let first = list.first; first !== null && first.dueMs <= dueMs; first = list.first) {
    list.remove(first);
    into.push(first);
  }
}

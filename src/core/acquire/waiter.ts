// One caller that waits in a line, and the queue they stand in. A task settles exactly once and leaves no timer and no
// listener behind: a signal may outlive a thousand waits.

import { onAbort } from "../util/abort-listener.ts";
import type { Actor } from "../lease/actor.ts";
import { DueEntry, type DueLists } from "../util/due-lists.ts";
import type { LockError } from "../errors.ts";
import type { HeldLease } from "../lease/lease.ts";
import type { Wish } from "../options.ts";
import { abortedError } from "./acquire-errors.ts";

/** The line that a task stands in. */
export interface TaskLine {
  expired(task: Task): void;
  leave(task: Task, error: LockError): void;
}

export class Task extends DueEntry {
  readonly keys: readonly string[];
  readonly wish: Wish;
  readonly actor: Actor;
  readonly sinceMs: number;
  readonly deadlineMs: number;
  /** Listeners have heard that it waits. */
  announced = false;
  /** Told when it settles. */
  onEnd: (() => void) | null = null;
  #line: TaskLine | null = null;
  #deadlines: DueLists<Task> | null = null;
  #resolve: ((lease: HeldLease) => void) | null = null;
  #reject: ((error: LockError) => void) | null = null;
  #offAbort: (() => void) | null = null;

  constructor(keys: readonly string[], wish: Wish, actor: Actor, nowMs: number, deadlineMs: number) {
    super();
    this.keys = keys;
    this.wish = wish;
    this.actor = actor;
    this.sinceMs = nowMs;
    this.deadlineMs = deadlineMs;
  }

  get pending(): boolean {
    return this.#resolve !== null;
  }

  /** What keeps the process alive meanwhile is the line's turn or slice; the deadlines of all tasks share one timer. */
  wait(
    line: TaskLine,
    deadlines: DueLists<Task>,
    resolve: (lease: HeldLease) => void,
    reject: (error: LockError) => void,
  ): void {
    this.#line = line;
    this.#resolve = resolve;
    this.#reject = reject;
    if (this.deadlineMs !== Number.POSITIVE_INFINITY) {
      this.#deadlines = deadlines;
      deadlines.set(this, this.wish.waitMs, this.deadlineMs);
    }
    const { signal } = this.wish;
    if (signal !== null) {
      this.#offAbort = onAbort(signal, () => this.#line?.leave(this, abortedError(this.keys, signal)));
    }
  }

  /** Its deadline has come. */
  expire(): void {
    this.#line?.expired(this);
  }

  /** It need not wait any longer, because it would be in vain. */
  refuse(error: LockError): void {
    this.#line?.leave(this, error);
  }

  granted(lease: HeldLease): void {
    const resolve = this.#resolve;
    this.#end();
    resolve?.(lease);
  }

  refused(error: LockError): void {
    const reject = this.#reject;
    this.#end();
    reject?.(error);
  }

  #end(): void {
    this.#resolve = null;
    this.#reject = null;
    this.#deadlines?.delete(this);
    this.#offAbort?.();
    this.onEnd?.();
  }
}

/** First in, first out; leaving from the middle is cheap, because those who left are only passed over. */
export class TaskQueue {
  #tasks: (Task | null)[] = [];
  readonly #places = new Map<Task, number>();
  #first = 0;

  get size(): number {
    return this.#places.size;
  }

  get head(): Task | null {
    while (this.#first < this.#tasks.length) {
      const task = this.#tasks[this.#first];
      if (task !== null && task !== undefined) return task;
      this.#first += 1;
    }
    return null;
  }

  /** The first ones, at most so many. */
  first(most: number): Task[] {
    const first: Task[] = [];
    for (let at = this.#first; at < this.#tasks.length && first.length < most; at += 1) {
      const task = this.#tasks[at];
      if (task !== null && task !== undefined) first.push(task);
    }
    return first;
  }

  all(): Task[] {
    return [...this.#places.keys()];
  }

  push(task: Task): void {
    if (this.#first > 1_024 && this.#first * 2 > this.#tasks.length) this.#compact();
    this.#places.set(task, this.#tasks.length);
    this.#tasks.push(task);
  }

  remove(task: Task): void {
    const place = this.#places.get(task);
    if (place === undefined) return;
    this.#places.delete(task);
    this.#tasks[place] = null;
    if (this.#places.size === 0) {
      this.#tasks = [];
      this.#first = 0;
    }
  }

  #compact(): void {
    this.#tasks = this.#tasks.slice(this.#first);
    this.#first = 0;
    this.#tasks.forEach((task, place) => {
      if (task !== null) this.#places.set(task, place);
    });
  }
}

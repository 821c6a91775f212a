// One caller that waits in a line, and the queue they stand in. A task settles exactly once and leaves no timer and no
// listener behind: a signal may outlive a thousand waits.

import type { Actor } from "./actor.ts";
import { LockAbortedError, type LockError } from "./errors.ts";
import { showKey } from "./key.ts";
import type { HeldLease } from "./lease.ts";
import type { Wish } from "./options.ts";
import type { System } from "./system.ts";

export interface Settle {
  resolve(lease: HeldLease): void;
  reject(error: LockError): void;
}

export class Task {
  readonly keys: readonly string[];
  readonly wish: Wish;
  readonly actor: Actor;
  readonly sinceMs: number;
  readonly deadlineMs: number;
  /** Listeners have heard that it waits. */
  announced = false;
  #settle: Settle | null = null;
  #cancelTimer: (() => void) | null = null;
  #onAbort: (() => void) | null = null;

  constructor(keys: readonly string[], wish: Wish, actor: Actor, nowMs: number, deadlineMs: number) {
    this.keys = keys;
    this.wish = wish;
    this.actor = actor;
    this.sinceMs = nowMs;
    this.deadlineMs = deadlineMs;
  }

  get pending(): boolean {
    return this.#settle !== null;
  }

  wait(
    settle: Settle,
    system: System,
    onDeadline: () => void,
    onAbort: (error: LockAbortedError) => void,
  ): void {
    this.#settle = settle;
    if (this.deadlineMs !== Number.POSITIVE_INFINITY) {
      this.#cancelTimer = system.after(this.deadlineMs - system.monoMs(), onDeadline);
    }
    const { signal } = this.wish;
    if (signal === null) return;
    this.#onAbort = () => onAbort(abortedError(this.keys, signal));
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  granted(lease: HeldLease): void {
    this.#end()?.resolve(lease);
  }

  refused(error: LockError): void {
    this.#end()?.reject(error);
  }

  #end(): Settle | null {
    const settle = this.#settle;
    this.#settle = null;
    this.#cancelTimer?.();
    if (this.#onAbort !== null) this.wish.signal?.removeEventListener("abort", this.#onAbort);
    return settle;
  }
}

export function abortedError(keys: readonly string[], signal: AbortSignal): LockAbortedError {
  return new LockAbortedError(`the wait for ${keys.map(showKey).join(", ")} was aborted by its signal`, {
    key: keys[0],
    cause: signal.reason,
  });
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

// What is over must be forgotten by the store too: every id that was lost, timed out or aborted is abandoned again and
// again until the store has acknowledged it (P6, P8), so that no grant nobody knows of stays behind. Where the store refuses it for
// good, because the record is damaged or a right is missing, that ends some time after the lease would have: a caller that
// goes on trying must not fill the memory.

import { type Caller, callTimeoutMs } from "./call.ts";
import { LockError } from "./errors.ts";
import type { OpenStore, Request } from "./store.ts";
import type { System } from "./system.ts";

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
/** How much longer than the lease a refusal for good is argued with. */
const REFUSED_MS = 30_000;

export class Abandonment {
  readonly #store: OpenStore;
  readonly #caller: Caller;
  readonly #system: System;
  readonly #pending = new Map<string, () => void>();
  #idle: (() => void)[] = [];
  #closed = false;

  constructor(store: OpenStore, caller: Caller, system: System) {
    this.#store = store;
    this.#caller = caller;
    this.#system = system;
  }

  add(request: Request): void {
    if (this.#pending.has(request.id)) return;
    this.#pending.set(request.id, () => {});
    this.#tell(request, FIRST_RETRY_MS, this.#system.monoMs());
  }

  /** Resolves when nothing is pending any more, or after `ms`. */
  settled(ms: number): Promise<void> {
    if (this.#pending.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#system.after(ms, resolve);
      this.#idle.push(() => {
        cancel();
        resolve();
      });
    });
  }

  stop(): void {
    this.#closed = true;
    for (const cancel of this.#pending.values()) cancel();
    this.#pending.clear();
  }

  #tell(request: Request, retryMs: number, sinceMs: number): void {
    this.#caller
      .call("abandon", request.keys[0], callTimeoutMs(request.ttlMs), (io) =>
        this.#store.abandon(request, io),
      )
      .then(
        () => this.#done(request.id),
        (error: unknown) => {
          const forGood = LockError.is(error) && !error.retryable;
          if (forGood && this.#isOver(request, sinceMs)) this.#done(request.id);
          else this.#later(request, forGood ? LONGEST_RETRY_MS : retryMs, sinceMs);
        },
      );
  }

  #isOver({ ttlMs, graceMs }: Request, sinceMs: number): boolean {
    return this.#system.monoMs() - sinceMs > ttlMs + graceMs + REFUSED_MS;
  }

  #later(request: Request, retryMs: number, sinceMs: number): void {
    if (this.#closed) return;
    const jittered = retryMs * (0.75 + this.#system.random() / 2);
    const next = Math.min(LONGEST_RETRY_MS, retryMs * 2);
    this.#pending.set(
      request.id,
      this.#system.after(jittered, () => this.#tell(request, next, sinceMs), "background"),
    );
  }

  #done(id: string): void {
    this.#pending.delete(id);
    if (this.#pending.size > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }
}

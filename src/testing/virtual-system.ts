// A `System` in virtual time, which only a test moves, so that every expiry, heartbeat and renewal is
// exact and takes no real time. Ids and random numbers come from one seed, so a run can be repeated.
// Between two timers it waits for a real turn of the event loop, so that promises settle.

import type { Instant, System } from "../core/system.ts";
import { nodeSystem } from "../system/node.ts";

/** Options of `VirtualSystem`: the seed and the start of each clock. */
export interface VirtualSystemOptions {
  readonly seed?: number;
  readonly monoMs?: number;
  readonly bootMs?: number;
  readonly wallMs?: number;
  readonly processLabel?: string;
}

/** A call of `warn`. */
export interface Warning {
  readonly message: string;
  readonly cause: unknown;
}

interface Timer {
  readonly dueMs: number;
  readonly fn: () => void;
  readonly background: boolean;
}

/**
 * Clocks and timers for tests of a store.
 *
 * @example
 * const system = new VirtualSystem({ seed: 1 });
 * const store = await memory().open({ namespace: "test", system, allow: [] });
 * await system.advance(30_000);
 */
export class VirtualSystem implements System {
  readonly processLabel: string;
  /** The calls of `warn`, in order. */
  readonly warnings: Warning[] = [];
  /** The listeners that a test calls in place of the exit of the process. */
  readonly exitListeners: Set<() => void> = new Set();
  #monoMs: number;
  #bootMs: number;
  #wallMs: number;
  #state: number;
  /** By due time. Of two timers with the same due time, the older one fires first. */
  readonly #timers: Timer[] = [];

  constructor(options: VirtualSystemOptions = {}) {
    this.#monoMs = options.monoMs ?? 1_000_000;
    this.#bootMs = options.bootMs ?? this.#monoMs;
    this.#wallMs = options.wallMs ?? 1_700_000_000_000;
    this.#state = (options.seed ?? 1) >>> 0;
    this.processLabel = options.processLabel ?? "virtual:1";
  }

  now(): Instant {
    return { monoMs: this.#monoMs, bootMs: this.#bootMs, wallMs: this.#wallMs };
  }

  monoMs(): number {
    return this.#monoMs;
  }

  wallMs(): number {
    return this.#wallMs;
  }

  /** No effect: virtual time does not keep the process alive. */
  pending(): void {}

  after(ms: number, fn: () => void, kind?: "background"): () => void {
    if (ms === Number.POSITIVE_INFINITY) return () => {};
    const timer: Timer = { dueMs: this.#monoMs + Math.max(0, ms), fn, background: kind === "background" };
    this.#timers.splice(this.#firstDueAfter(timer.dueMs), 0, timer);
    return () => this.#remove(timer);
  }

  beforeExit(listener: () => void): () => void {
    this.exitListeners.add(listener);
    return () => {
      this.exitListeners.delete(listener);
    };
  }

  yield(): Promise<void> {
    return nodeSystem.yield();
  }

  /** SplitMix32, which has no bad seeds. */
  random(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let bits = this.#state;
    bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad);
    bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
    return ((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32;
  }

  randomId(): string {
    const word = (): string =>
      Math.floor(this.random() * 2 ** 32)
        .toString(16)
        .padStart(8, "0");
    return word() + word() + word() + word();
  }

  warn(message: string, cause: unknown): void {
    this.warnings.push({ message, cause });
  }

  /** The number of timers, without background timers unless `background` is true. */
  pendingTimers(options: { readonly background?: boolean } = {}): number {
    return this.#timers.filter((timer) => options.background === true || !timer.background).length;
  }

  /**
   * Moves all clocks by `ms`. Timers fire at their own times, in order, and promises settle after each
   * timer.
   */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monoMs + ms;
    await this.settle();
    for (let timer = this.#timers[0]; timer !== undefined && timer.dueMs <= endMs; timer = this.#timers[0]) {
      this.#remove(timer);
      this.stall(timer.dueMs - this.#monoMs);
      timer.fn();
      await this.settle();
    }
    this.stall(endMs - this.#monoMs);
    await this.settle();
  }

  /**
   * Lets promises settle without moving time. Two turns, because a promise may itself wait for one
   * `yield`.
   */
  async settle(): Promise<void> {
    await nodeSystem.yield();
    await nodeSystem.yield();
  }

  /** Simulates a blocked event loop: all clocks move, and no timer fires before the next `advance`. */
  stall(ms: number): void {
    if (ms <= 0) return;
    this.#monoMs += ms;
    this.#bootMs += ms;
    this.#wallMs += ms;
  }

  /**
   * Simulates a suspended machine: the boot clock and the wall clock move, and the monotonic clock does
   * not.
   */
  suspend(ms: number): void {
    this.#bootMs += ms;
    this.#wallMs += ms;
  }

  /** Sets the wall clock forward, or back with a negative `ms`. */
  jumpWall(ms: number): void {
    this.#wallMs += ms;
  }

  #firstDueAfter(dueMs: number): number {
    let [low, high] = [0, this.#timers.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#timers[middle] as Timer).dueMs <= dueMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #remove(timer: Timer): void {
    const at = this.#timers.indexOf(timer);
    if (at !== -1) this.#timers.splice(at, 1);
  }
}

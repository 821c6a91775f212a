// A `System` whose time stands still until a test moves it: every expiry, heartbeat and renewal becomes exact and instant.
// Clocks, ids and chance come from one seed, so a run repeats. It must never look at real time; the one real thing in it
// is the turn of the event loop between two timers, which lets promises settle as they would in life.

import type { Instant, System } from "../core/system.ts";
import { nodeSystem } from "../system/node.ts";

export interface VirtualSystemOptions {
  readonly seed?: number;
  readonly monoMs?: number;
  readonly bootMs?: number;
  readonly wallMs?: number;
  readonly processLabel?: string;
}

export interface Warning {
  readonly message: string;
  readonly cause: unknown;
}

interface Timer {
  readonly dueMs: number;
  readonly fn: () => void;
  readonly background: boolean;
}

export class VirtualSystem implements System {
  readonly processLabel: string;
  /** What `warn` was told, in order. */
  readonly warnings: Warning[] = [];
  /** To be called when the process would end. */
  readonly exitListeners: Set<() => void> = new Set();
  #monoMs: number;
  #bootMs: number;
  #wallMs: number;
  #state: number;
  /** By due time; of two that are due at once the older rings first. */
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

  /** Virtual time passes only where it is told to, so nothing has to be kept alive. */
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

  /** SplitMix32: small, and every seed is a good one. */
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

  /** How many timers are set; background timers are counted only when asked for. */
  pendingTimers(options: { readonly background?: boolean } = {}): number {
    return this.#timers.filter((timer) => options.background === true || !timer.background).length;
  }

  /** All clocks move on by `ms`. Timers ring at their own time, in order, and promises settle after each. */
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

  /** Lets promises settle without moving time. Two turns: what settled in the first may have yielded once itself. */
  async settle(): Promise<void> {
    await nodeSystem.yield();
    await nodeSystem.yield();
  }

  /** The event loop is blocked: all clocks move on and no timer rings before the next `advance`. */
  stall(ms: number): void {
    if (ms <= 0) return;
    this.#monoMs += ms;
    this.#bootMs += ms;
    this.#wallMs += ms;
  }

  /** The machine sleeps: the monotonic clock stands still. */
  suspend(ms: number): void {
    this.#bootMs += ms;
    this.#wallMs += ms;
  }

  /** Somebody sets the calendar. */
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

// A simulated process: its own clocks, its own timers, and the possibility not to run. While it is paused everything that
// would happen to it queues up; a dead one hears nothing.

import type { Instant, System } from "../../src/core/system.ts";
import type { Random } from "./random.ts";
import type { Timeline } from "./timeline.ts";

export interface ClockSettings {
  /** How fast its clocks run: 1 is true time. */
  readonly rate: number;
  readonly wallOffsetMs: number;
}

export class SimProcess implements System {
  readonly processLabel: string;
  readonly rate: number;
  readonly warnings: unknown[] = [];
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #backlog: (() => void)[] = [];
  #wallOffsetMs: number;
  #state: "running" | "paused" | "dead" = "running";
  #timers = 0;

  constructor(name: string, timeline: Timeline, random: Random, clock: ClockSettings) {
    this.processLabel = name;
    this.#timeline = timeline;
    this.#random = random;
    this.rate = clock.rate;
    this.#wallOffsetMs = clock.wallOffsetMs;
  }

  get state(): "running" | "paused" | "dead" {
    return this.#state;
  }

  /** Timers that are set and not yet due or cancelled. */
  get timers(): number {
    return this.#timers;
  }

  now(): Instant {
    const monoMs = this.monoMs();
    return { monoMs, bootMs: monoMs, wallMs: this.wallMs() };
  }

  monoMs(): number {
    return 1_000_000 + this.#timeline.now * this.rate;
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#timeline.now * this.rate + this.#wallOffsetMs;
  }

  pending(): void {}

  after(ms: number, fn: () => void): () => void {
    if (ms === Number.POSITIVE_INFINITY) return () => {};
    this.#timers += 1;
    let open = true;
    const close = (): boolean => {
      if (!open) return false;
      open = false;
      this.#timers -= 1;
      return true;
    };
    const cancel = this.#timeline.after(Math.max(0, ms) / this.rate, () => {
      this.happens(() => {
        if (close()) fn();
      });
    });
    return () => {
      if (close()) cancel();
    };
  }

  yield(): Promise<void> {
    return new Promise((resolve) => {
      this.#timeline.after(0, () => this.happens(resolve));
    });
  }

  randomId(): string {
    const word = (): string =>
      Math.floor(this.#random.next() * 2 ** 32)
        .toString(16)
        .padStart(8, "0");
    return word() + word() + word() + word();
  }

  random(): number {
    return this.#random.next();
  }

  warn(_message: string, cause: unknown): void {
    this.warnings.push(cause);
  }

  /** Something reaches the process: now, when it goes on, or never. */
  happens(fn: () => void): void {
    if (this.#state === "running") fn();
    else if (this.#state === "paused") this.#backlog.push(fn);
  }

  /** Stops it for `ms`. What `first` does is the first thing that happens afterwards, as after a synchronous stall. */
  pause(ms: number, first: () => void = () => {}): boolean {
    if (this.#state !== "running") return false;
    this.#state = "paused";
    this.#backlog.unshift(first);
    this.#timeline.after(ms, () => this.#resume());
    return true;
  }

  kill(): void {
    this.#state = "dead";
    this.#backlog.length = 0;
  }

  jumpWall(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  #resume(): void {
    if (this.#state !== "paused") return;
    this.#state = "running";
    const next = (): void => {
      if (this.#state !== "running") return;
      const fn = this.#backlog.shift();
      if (fn === undefined) return;
      fn();
      // One at a time, with the promises of each settled before the next, as an event loop does it.
      this.#timeline.after(0, next);
    };
    next();
  }
}

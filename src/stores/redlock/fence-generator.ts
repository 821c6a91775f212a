// Fences as this process proposes them: its wall clock in microseconds, never the same one twice. Nothing
// depends on this clock being right: a node refuses a fence that is not larger than all it has accepted, and
// says how large that was.

import type { System } from "../../core/system.ts";

/** Further than this from the wall clock the finer clock is set again. */
const STRAY_MS = 2;

export class FenceGenerator {
  readonly #system: System;
  /**
   * Wall minus monotonic clock. The wall clock is read in whole ms, so the largest difference is the nearest.
   */
  #offsetMs = Number.NEGATIVE_INFINITY;
  #last = 0;

  constructor(system: System) {
    this.#system = system;
  }

  /** Larger than `above`, and than what was proposed before. */
  next(above = 0): number {
    const own = Math.max(this.#nowUs(), this.#last + 1);
    this.#last = own;
    // What others have raised a key to concerns that key only, and is not taken over into this clock.
    return Math.max(own, above + 1);
  }

  /** What was proposed by a clock that was wrong must not be carried on when it is right again. */
  forget(): void {
    this.#last = 0;
  }

  #nowUs(): number {
    const [monoMs, wallMs] = [this.#system.monoMs(), this.#system.wallMs()];
    const offsetMs = wallMs - monoMs;
    if (offsetMs > this.#offsetMs || this.#offsetMs - offsetMs > STRAY_MS) this.#offsetMs = offsetMs;
    return Math.floor((monoMs + this.#offsetMs) * 1_000);
  }
}

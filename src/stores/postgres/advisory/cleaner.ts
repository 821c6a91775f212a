// Deletes the fences of locks that nobody has used for long, and never lets a fence go back (P3, P16).
//
// 1. Raise the floor to the largest fence of the rows that may go.
// 2. A minute later, by the clock of this process, delete the rows below that floor. No statement that began
//    before the floor was raised is still under way, so whoever creates a row again has seen the floor.
//
// Each process goes by the floor that it raised itself, so several may do it at once.

import type { System } from "../../../core/system.ts";
import type { CallContext } from "../../shared/retry-while-unsent.ts";

const EVERY_MS = 60_000;

export interface CleanerSteps {
  /** Gives the floor. */
  raiseFloor(call: CallContext): Promise<number>;
  /** Deletes some rows below the floor. True: there may be more. */
  deleteSome(floor: number, call: CallContext): Promise<boolean>;
}

export class Cleaner {
  readonly #steps: CleanerSteps;
  readonly #system: System;
  #floor: number | null = null;
  #nextMs: number;

  constructor(steps: CleanerSteps, system: System) {
    this.#steps = steps;
    this.#system = system;
    // Not all processes at once.
    this.#nextMs = system.monoMs() + EVERY_MS * system.random();
  }

  /** If it is time. Nobody waits for it, and what fails is tried again next time. */
  run(call: CallContext): void {
    if (this.#system.monoMs() < this.#nextMs) return;
    this.#nextMs = this.#system.monoMs() + EVERY_MS;
    void this.#clean(call).catch(() => {});
  }

  async #clean(call: CallContext): Promise<void> {
    const floor = this.#floor;
    this.#floor = null;
    // All that there is: a fixed number per occasion would not keep up with many new keys.
    while (floor !== null && !call.signal.aborted && (await this.#steps.deleteSome(floor, call)));
    this.#floor = await this.#steps.raiseFloor(call);
  }
}

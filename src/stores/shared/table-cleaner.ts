// Deletes the rows of locks that ended long ago, without letting a fence go back (P3, P16).
//
// 1. Raise the floor to the largest fence of the rows that may be deleted. New rows start above the floor.
// 2. A minute later, by the clock of this process, delete the rows below the floor. No statement that began
//    before the floor was raised can still run by then, so every new row has read the floor.
//
// Several processes may do this at once: each uses the floor that it has raised itself.

import type { System } from "../../core/system.ts";
import type { CallContext } from "./retry-while-unsent.ts";

const EVERY_MS = 60_000;

/** The rows to clean. */
export interface CleanedRows {
  /** Raises the floor to the largest fence of the rows that ended long ago, and resolves with the floor. */
  raiseFloor(call: CallContext): Promise<number>;
  /** Deletes some of these rows with a fence below the floor. Resolves with true if there may be more. */
  clean(floor: number, call: CallContext): Promise<boolean>;
}

export class TableCleaner {
  readonly #table: CleanedRows;
  readonly #system: System;
  #floor: number | null = null;
  #nextMs: number;

  constructor(table: CleanedRows, system: System) {
    this.#table = table;
    this.#system = system;
    // A random first time, so that processes that start together do not clean together.
    this.#nextMs = system.monoMs() + EVERY_MS * system.random();
  }

  /** Cleans if it is time. Callers do not wait for it. After a failure the next round tries again. */
  now(call: CallContext): void {
    if (this.#system.monoMs() < this.#nextMs) return;
    this.#nextMs = this.#system.monoMs() + EVERY_MS;
    void this.#clean(call).catch(() => {});
  }

  async #clean(call: CallContext): Promise<void> {
    const floor = this.#floor;
    this.#floor = null;
    // Delete everything that may go: a fixed number per round would not keep up with many new keys.
    while (floor !== null && !call.signal.aborted && (await this.#table.clean(floor, call)));
    this.#floor = await this.#table.raiseFloor(call);
  }
}

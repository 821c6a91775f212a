// Cleans away the rows of locks that have been over for long, and never lets a fence go back by it (P3, P16).
// First the floor is raised to the largest fence of the rows that may go; a good while later, by this process's own clock, the
// rows below it are deleted. By then no statement is under way any more that began before the floor was raised, so whoever
// makes a row anew has seen the floor. One process after another may do it: each goes by the floor that it raised itself.

import type { System } from "../../core/system.ts";
import type { Patience, Table } from "./table.ts";

const EVERY_MS = 60_000;

/** What is cleaned: a lease table, or any other rows with fences. */
export type Cleaned = Pick<Table, "raiseFloor" | "clean">;

export class TableCleaner {
  readonly #table: Cleaned;
  readonly #system: System;
  #floor: number | null = null;
  #nextMs: number;

  constructor(table: Cleaned, system: System) {
    this.#table = table;
    this.#system = system;
    // Not all processes of a fleet at once.
    this.#nextMs = system.monoMs() + EVERY_MS * system.random();
  }

  /** If it is time. Nobody waits for it, and what fails is tried again next time. */
  now(patience: Patience): void {
    if (this.#system.monoMs() < this.#nextMs) return;
    this.#nextMs = this.#system.monoMs() + EVERY_MS;
    void this.#clean(patience).catch(() => {});
  }

  async #clean(patience: Patience): Promise<void> {
    const floor = this.#floor;
    this.#floor = null;
    // All that there is: a fixed number per occasion would not keep up with many new keys.
    while (floor !== null && !patience.signal.aborted && (await this.#table.clean(floor, patience)));
    this.#floor = await this.#table.raiseFloor(patience);
  }
}

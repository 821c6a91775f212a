// What one process has to tell, as lines of JSON in a file of its own. Every line is written with one system call before
// the process goes on, so that a kill -9 takes nothing with it. It must never buffer.

import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { HistoryEvent } from "../sim/history.ts";

/** The event loop of a client stood still, for whatever reason. */
export interface Stall {
  readonly type: "stall";
  readonly at: number;
  readonly client: string;
  readonly untilMs: number;
}

/** What only a real run can have and no shared checker reads: see `own-checks.ts`. */
export interface Remark {
  readonly type: "outlived" | "over-at-grant" | "unnamed-error" | "ended-by-itself";
  readonly at: number;
  readonly client: string;
  readonly what: string;
}

export type JournalLine = HistoryEvent | Stall | Remark;

/** CLOCK_MONOTONIC, which all processes of this machine share, in ms. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export class Journal {
  /** Runs before each line: what it writes comes first. */
  before: () => void = () => {};
  readonly #file: number;

  constructor(folder: string, name: string) {
    this.#file = openSync(join(folder, `${name}.jsonl`), "a");
  }

  write(line: JournalLine): void {
    this.before();
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }

  close(): void {
    closeSync(this.#file);
  }
}

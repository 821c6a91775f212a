// The table that the diallers fight over: one line per phone number in a plain file, as a small office would keep it.
// It is read and written with nothing to protect it; that is the point. Who really dials is recorded beside it by files
// that the kernel creates for one process only, so a collision is a fact and not the table's opinion.

import { closeSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

const NUMBERS = 20;
const STATE_WIDTH = "dialling".length;
const LINE_WIDTH = "139-0000 ".length + STATE_WIDTH + 1;

export class PhoneTable {
  readonly #folder: string;
  readonly #file: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.#file = join(folder, "phones.txt");
  }

  /** All numbers idle, nobody on the line. */
  create(): void {
    for (let number = 0; number < NUMBERS; number += 1) this.hangUp(number);
    const lines = Array.from(
      { length: NUMBERS },
      (_, i) => `139-${String(i + 1).padStart(4, "0")} ${state("idle")}\n`,
    );
    writeFileSync(this.#file, lines.join(""));
  }

  /** The first number that the table calls idle, or null. */
  firstIdle(): number | null {
    const line = readFileSync(this.#file, "utf8")
      .split("\n")
      .findIndex((text) => text.trimEnd().endsWith("idle"));
    return line === -1 ? null : line;
  }

  mark(number: number, as: "idle" | "dialling"): void {
    const fd = openSync(this.#file, "r+");
    try {
      writeSync(fd, state(as), number * LINE_WIDTH + LINE_WIDTH - STATE_WIDTH - 1);
    } finally {
      closeSync(fd);
    }
  }

  /** False when somebody else is on the line already: a collision. */
  pickUp(number: number): boolean {
    try {
      closeSync(openSync(this.#call(number), "wx"));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
  }

  hangUp(number: number): void {
    rmSync(this.#call(number), { force: true });
  }

  #call(number: number): string {
    return join(this.#folder, `call-${number}`);
  }
}

function state(text: "idle" | "dialling"): string {
  return text.padEnd(STATE_WIDTH);
}

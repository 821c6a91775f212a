// What the demo shows: at a terminal one line that is written over, elsewhere a plain line now and then, and a closing
// table. It never decides anything.

import type { RoundResult } from "./round.ts";

/** Without a terminal, progress is a line per this share of a round. */
const PLAIN_SHARE = 0.25;
const BAR = 20;

export class Screen {
  readonly #terminal: boolean = process.stdout.isTTY;
  #shown = "";
  #nextPlain = PLAIN_SHARE;

  line(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  progress(
    title: string,
    share: number,
    tally: { readonly dials: number; readonly collisions: number },
  ): void {
    const done = Math.round(share * BAR);
    const bar = `${"#".repeat(done)}${".".repeat(BAR - done)}`;
    const text = `${title.padEnd(14)} [${bar}] ${tally.dials} dials, ${tally.collisions} collisions`;
    if (this.#terminal) {
      process.stdout.write(`\r${text.padEnd(this.#shown.length)}`);
      this.#shown = text;
    } else if (share >= this.#nextPlain) {
      this.#nextPlain += PLAIN_SHARE;
      this.line(text);
    }
  }

  /** The round is over: the line stays. */
  settle(): void {
    if (this.#shown !== "") this.line("");
    this.#shown = "";
    this.#nextPlain = PLAIN_SHARE;
  }

  closing(processes: number, rounds: readonly (readonly [string, RoundResult])[]): void {
    const head = ["", "processes", "dials", "dials/s", "longest wait", "collisions"];
    const rows = rounds.map(([title, result]) => [
      title,
      String(processes),
      String(result.dials),
      (result.dials / result.seconds).toFixed(0),
      result.longestWaitMs === 0 ? "-" : `${result.longestWaitMs.toFixed(0)} ms`,
      String(result.collisions),
    ]);
    const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => (row[i] as string).length)));
    this.line("");
    for (const row of [head, ...rows]) {
      const cells = row.map((cell, i) =>
        i === 0 ? cell.padEnd(widths[i] as number) : cell.padStart(widths[i] as number),
      );
      this.line(cells.join("  "));
    }
  }
}

// `npm run demo`: the dialling race. Several processes pick idle phone numbers from one table, first with nothing between
// them, then under a lock of the local store. Ends by itself, leaves nothing behind, and succeeds only if the race was
// real (collisions without the lock) and the lock ended it (none with it).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { duration } from "../index.ts";
import { playRound, type RoundResult } from "./round.ts";
import { Screen } from "./screen.ts";

const PROCESSES = 4;
const ROUND = "5s";

async function main(ms: number, signal: AbortSignal): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  const screen = new Screen();
  const play = async (title: string, store: string): Promise<RoundResult> => {
    const progress = (tally: { dials: number; collisions: number }, elapsedMs: number): void =>
      screen.progress(title, Math.min(1, elapsedMs / ms), tally);
    const result = await playRound({ folder, store, processes: PROCESSES, ms, signal, progress });
    screen.settle();
    return result;
  };
  try {
    screen.line(
      `${PROCESSES} processes dial the idle numbers of one table. Two on one number at once: a collision.`,
    );
    const without = await play("without a lock", "");
    if (signal.aborted) return 130;
    const under = await play("with holdfast", `local:${join(folder, "locks")}`);
    if (signal.aborted) return 130;
    screen.closing(PROCESSES, [
      ["without a lock", without],
      ["with holdfast", under],
    ]);
    return without.collisions > 0 && under.collisions === 0 && under.dials > 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => stop.abort());
process.exitCode = await main(duration(process.argv[2] ?? ROUND), stop.signal);

// Runs inside the copy: many short worlds until one of the named checkers objects. Prints one JSON line.

import fc from "fast-check";
import { run } from "../run.ts";
import { settingsFor, type SimStoreName } from "../settings.ts";

const [seed, runs, killers] = [
  Number(process.argv[2]),
  Number(process.argv[3]),
  (process.argv[4] ?? "").split(","),
];
const store = (process.argv[5] ?? "memory") as SimStoreName;
const PATIENCE_MS = 2_000;

const startedMs = performance.now();
let tried = 0;
let by: string | null = null;
for (const settings of fc.sample(settingsFor(store), { seed, numRuns: runs })) {
  tried += 1;
  // A mutant may also make a world spin; that world is given up.
  const result = await Promise.race([run(settings), patience()]);
  by = result?.violations.find((one) => killers.includes(one.checker))?.checker ?? null;
  if (by !== null) break;
}
process.stdout.write(
  JSON.stringify({ by, runs: tried, seconds: (performance.now() - startedMs) / 1_000 }),
  () => process.exit(0),
);

function patience(): Promise<null> {
  return new Promise((resolve) => {
    setTimeout(resolve, PATIENCE_MS, null).unref();
  });
}

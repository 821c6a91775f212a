// `npm run sim -- --store redis --seed N --runs M`: many runs from one printed seed. The first failing run is
// shrunk and shown.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import fc from "fast-check";
import { readUsage, wholeNumber } from "../scripts/usage.mjs";
import { writeSimResult } from "./results.ts";
import { run } from "./run.ts";
import { type SimSettings, type SimStoreName, settingsFor, STORES } from "./settings.ts";

const SHRINK_MS = 60_000;

const USAGE = `npm run sim -- [--store NAME] [options]

  --store NAME      which store: ${STORES.join(", ")} (default memory)
  --seed N          repeats a series of worlds (default: any)
  --runs N          how many worlds (default 1000)
  --settings JSON   one world, as a failing run prints it
  --result          records the series in sim/results.jsonl, for docs/appendix/evidence.md
  --keep            keeps a failing world in sim/regressions, which the tests run from then on
  --help            this

Exits with 0 when every promise was kept, 1 when one was not, 64 when the command was wrong.`;

const OPTIONS = {
  seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
  store: { type: "string", default: "memory" },
  runs: { type: "string", default: "1000" },
  settings: { type: "string" },
  result: { type: "boolean", default: false },
  keep: { type: "boolean", default: false },
} as const;

const asked = readUsage(USAGE, (args) => {
  const { values } = parseArgs({ args, options: OPTIONS });
  const store = STORES.find((name) => name === values.store);
  if (store === undefined)
    throw new Error(`--store must be one of ${STORES.join(", ")}, got ${values.store}`);
  return {
    store,
    seed: wholeNumber("--seed", values.seed),
    runs: wholeNumber("--runs", values.runs, 1),
    settings: values.settings === undefined ? null : (JSON.parse(values.settings) as SimSettings),
    keepsResult: values.result,
    keep: values.keep,
  };
});

if (asked.settings === null) await many(asked.store, asked.seed, asked.runs);
else await one(asked.settings);

async function many(behind: SimStoreName, seed: number, runs: number): Promise<void> {
  const repeat = `--store ${behind} --seed ${seed} --runs ${runs}`;
  console.log(`sim: ${behind}, seed ${seed}, ${runs} runs (repeat with ${repeat})`);
  const startedMs = performance.now();
  const sum = { runs: 0, events: 0, grants: 0, losses: 0 };
  let shownMs = startedMs;
  const property = fc.asyncProperty(settingsFor(behind), async (settings) => {
    const result = await run(settings);
    sum.runs += 1;
    sum.events += result.events;
    sum.grants += result.grants;
    sum.losses += result.losses;
    if (performance.now() - shownMs > 10_000) {
      shownMs = performance.now();
      console.log(`  ${sum.runs} runs, ${sum.events} events, ${sum.grants} grants, ${sum.losses} losses`);
    }
    return result.violations.length === 0;
  });
  const found = await fc.check(property, { seed, numRuns: runs, endOnFailure: true });
  const seconds = (performance.now() - startedMs) / 1_000;
  const rate = Math.round(sum.events / seconds);
  console.log(
    `${sum.runs} runs in ${seconds.toFixed(1)} s: ${sum.events} events (${rate}/s), ${sum.grants} grants, ${sum.losses} losses`,
  );
  if (asked.keepsResult) writeSimResult({ store: behind, seed, ...sum, failed: found.failed, seconds });
  if (!found.failed) return;
  console.log(`FAILED at run ${found.numRuns}; shrinking for at most ${SHRINK_MS / 1_000} s`);
  const path = found.counterexamplePath as string;
  const outcome = await fc.check(property, {
    seed,
    path,
    numRuns: runs,
    plugins: [fc.interruptAfterTimeLimit(SHRINK_MS)],
  });
  const [settings] = (outcome.counterexample ?? found.counterexample) as [SimSettings];
  console.log(`\nshrunk ${outcome.numShrinks} times to:\n${JSON.stringify(settings)}`);
  await one(settings);
  if (asked.keep) keep(settings);
  process.exitCode = 1;
}

async function one(settings: SimSettings): Promise<void> {
  const result = await run(settings);
  const { history, violations } = result;
  const first = violations[0];
  if (first !== undefined) {
    const near = history.events.filter((event) => event.at > first.at - 1_500 && event.at <= first.at + 1);
    for (const event of near.slice(-80)) console.log(JSON.stringify(event));
  }
  for (const { promise, checker, at, what } of violations.slice(0, 10)) {
    console.log(`${promise} (${checker}) at ${at.toFixed(1)}: ${what}`);
  }
  console.log(
    `trace ${result.hash()}, ${violations.length} violations; repeat with --settings '${JSON.stringify(settings)}'`,
  );
  if (violations.length > 0) process.exitCode = 1;
}

/** A failing run stays as a regression: it is run by the tests from then on. */
function keep(settings: SimSettings): void {
  const folder = join(import.meta.dirname, "regressions");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${settings.seed}.json`);
  writeFileSync(file, `${JSON.stringify(settings, null, 2)}\n`);
  console.log(`kept as ${file}`);
}

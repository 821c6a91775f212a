// `npm run faults -- --store local --fault pause --seconds 20 --seed N`: real processes under one kind of fault, judged
// afterwards. `--all` runs every fault that the store can meet, of every store where none is named; with `--missing` those only
// that have no result yet. `--report` writes docs/evidence.md from the results.

import { parseArgs } from "node:util";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { faultsOf } from "./plugins/index.ts";
import { readResults, writePage, writeResult } from "./results.ts";
import { run } from "./run.ts";
import { type Cheat, CHEATS, DEFAULTS, type RunSettings } from "./settings.ts";
import { targetNamed, targetNames } from "./targets/index.ts";

const SHOWN = 10;

const { values } = parseArgs({
  options: {
    store: { type: "string" },
    fault: { type: "string", default: DEFAULTS.fault },
    seconds: { type: "string", default: String(DEFAULTS.seconds) },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    clients: { type: "string", default: String(DEFAULTS.clients) },
    tasks: { type: "string", default: String(DEFAULTS.tasks) },
    cheat: { type: "string" },
    all: { type: "boolean", default: false },
    missing: { type: "boolean", default: false },
    report: { type: "boolean", default: false },
    "no-result": { type: "boolean", default: false },
  },
});

try {
  if (values.report) writePage();
  else if (values.all || values.missing)
    await runAll(values.store === undefined ? targetNames : [values.store]);
  else await runOne(values.store ?? DEFAULTS.store, values.fault);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

/** A run that cannot be made does not keep the others from being made. */
async function runAll(stores: readonly string[]): Promise<void> {
  const known = values.missing ? new Set(readResults().map(({ store, fault }) => `${store} ${fault}`)) : null;
  for (const store of stores) {
    for (const fault of await allFaults(store)) {
      if (known?.has(`${store} ${fault}`)) continue;
      await runOne(store, fault).catch((error: unknown) => {
        console.error(`${store}, ${fault}: ${error instanceof Error ? error.message : String(error)}`);
        process.exitCode = 1;
      });
    }
  }
}

/** Asks the store itself, which for that must be made. */
async function allFaults(store: string): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-faults-"));
  const target = await targetNamed(store)(folder, "none");
  try {
    return faultsOf(target);
  } finally {
    await target.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runOne(store: string, fault: string): Promise<void> {
  const settings = settingsFor(store, fault);
  const { seconds, seed, clients, tasks, cheats } = settings;
  console.log(
    `faults: store ${store}, fault ${fault}, ${seconds} s, seed ${seed}, ${clients} clients of ${tasks} tasks`,
  );
  const { figures, violations, version, kept } = await run(settings, (line) => console.log(`  ${line}`));
  for (const { promise, checker, at, what } of violations.slice(0, SHOWN)) {
    console.log(`${promise} (${checker}) at ${at.toFixed(1)}: ${what}`);
  }
  console.log(
    [
      `${figures.grants} grants, ${figures.losses} losses (${figures.killedHolders} killed holders)`,
      `${figures.refusals} refusals, ${figures.overlaps} overlaps (${figures.expected}), ${figures.fenceErrors} fence errors`,
      `${figures.violations} violations, ${figures.staleWritesRefused} stale writes refused by the guard`,
      `${figures.lostUpdatesWithoutGuard} lost updates without it, longest recovery ${figures.longestRecoveryMs} ms`,
      `longest event-loop delay ${figures.longestLoopDelayMs} ms`,
    ].join(", "),
  );
  // A bad run is a result too: a page made only of good ones would prove nothing.
  if (cheats.length === 0 && !values["no-result"]) writeResult(settings, figures, version);
  if (kept === null) return;
  console.log(`FAILED; the histories are in ${kept}`);
  process.exitCode = 1;
}

function settingsFor(store: string, fault: string): RunSettings {
  return {
    store,
    fault,
    seed: count("seed", values.seed),
    seconds: count("seconds", values.seconds),
    clients: count("clients", values.clients),
    tasks: count("tasks", values.tasks),
    cheats: (values.cheat?.split(",") ?? []).map(cheatNamed),
  };
}

function count(name: string, text: string): number {
  if (/^\d+$/.test(text)) return Number(text);
  throw new Error(`--${name} is ${JSON.stringify(text)}: it is a whole number`);
}

function cheatNamed(name: string): Cheat {
  const cheat = CHEATS.find((one) => one === name);
  if (cheat !== undefined) return cheat;
  throw new Error(`there is no cheat ${name}: there are ${CHEATS.join(", ")}`);
}

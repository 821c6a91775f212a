// `npm run faults -- --store local --fault pause --seconds 20 --seed N`: real processes under one kind of fault, judged
// afterwards. What else it can do: `--help`.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { putJsonLine } from "../scripts/json-lines.ts";
import { ranNow } from "../scripts/ran-now.ts";
import { readUsage } from "../scripts/usage.mjs";
import { type Command, parse, USAGE } from "./command.ts";
import { faultsOf, MIXED } from "./plugins/index.ts";
import { HALF_OPEN_RESULTS, halfOpen, judgedHalfOpen } from "./half-open.ts";
import { judged, outage, OUTAGE_RESULTS } from "./outage.ts";
import { readResults, writePage, writeResult } from "./results.ts";
import { run } from "./run.ts";
import { DEFAULTS } from "./settings.ts";
import { targetNamed, targetNames } from "./targets/index.ts";

const SHOWN = 10;

const command = readUsage(USAGE, parse);
try {
  await obey(command);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
// Not left to itself: Node 20 may turn in circles at its end, for ever, where a socket was reset while it was written to.
process.exit();

async function obey(asked: Command): Promise<void> {
  const stores = asked.store === null ? targetNames : [asked.store];
  switch (asked.do) {
    case "report":
      return writePage();
    case "list":
      return list(stores);
    case "outage":
      return runOutage(asked.store ?? "redis", asked);
    case "half-open":
      return runHalfOpen(stores, asked);
    case "all":
    case "missing":
      return runAll(stores, asked);
    case "one":
      return runOne(asked.store ?? DEFAULTS.store, asked.fault, asked);
  }
}

function known(): ReadonlySet<string> {
  return new Set(readResults().map(({ store, fault }) => `${store} ${fault}`));
}

/** One line for each store, as soon as it has been asked. */
async function list(stores: readonly string[]): Promise<void> {
  const results = known();
  console.log("* has a result");
  for (const store of stores) {
    const shown = (await allFaults(store)).map(
      (fault) => `${fault}${results.has(`${store} ${fault}`) ? "*" : ""}`,
    );
    console.log(`${store}: ${[...shown, MIXED].join(", ")}`);
  }
}

async function runHalfOpen(stores: readonly string[], { keepsResult }: Command): Promise<void> {
  for (const store of stores) {
    const figures = await halfOpen(store);
    const { line, wrong } = judgedHalfOpen(figures);
    console.log(line);
    for (const one of wrong) console.error(one);
    if (wrong.length > 0) process.exitCode = 1;
    if (keepsResult) putJsonLine(HALF_OPEN_RESULTS, { ...figures, ...ranNow() }, (one) => one.store);
  }
}

async function runOutage(store: string, { settings, perSecond, keepsResult }: Command): Promise<void> {
  for (const figures of await outage({ store, seconds: settings.seconds, perSecond })) {
    if (keepsResult) {
      putJsonLine(OUTAGE_RESULTS, { ...figures, ...ranNow() }, (one) => `${one.store}-${one.phase}`);
    }
    const { line, wrong } = judged(figures);
    console.log(`${store}, ${line}`);
    for (const one of wrong) console.error(`${store}, ${one}`);
    if (wrong.length > 0) process.exitCode = 1;
  }
}

/** A run that cannot be made does not keep the others from being made. */
async function runAll(stores: readonly string[], asked: Command): Promise<void> {
  const results = asked.do === "missing" ? known() : new Set<string>();
  for (const store of stores) {
    for (const fault of await allFaults(store)) {
      if (results.has(`${store} ${fault}`)) continue;
      await runOne(store, fault, asked).catch((error: unknown) => {
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

async function runOne(
  store: string,
  fault: string,
  { settings: common, keepsResult }: Command,
): Promise<void> {
  const settings = { ...common, store, fault };
  const { seconds, seed, clients, tasks, graceMs } = settings;
  const grace = graceMs === undefined ? "" : `, a grace of ${graceMs} ms`;
  console.log(
    `faults: store ${store}, fault ${fault}, ${seconds} s, seed ${seed}, ${clients} clients of ${tasks} tasks${grace}`,
  );
  const { figures, violations, struck, version, kept } = await run(settings, (line) =>
    console.log(`  ${line}`),
  );
  for (const { promise, checker, at, what } of eachKindFirst(violations).slice(0, SHOWN)) {
    console.log(`${promise} (${checker}) at ${at.toFixed(1)}: ${what}`);
  }
  console.log(
    [
      `${figures.grants} grants, ${figures.losses} losses (${figures.killedHolders} killed holders)`,
      `${figures.refusals} refusals, ${figures.overlaps} overlaps (${figures.expected}), ${figures.fenceErrors} fence errors`,
      `${figures.violations} violations, ${figures.staleWritesRefused} stale writes refused by the guard`,
      `${figures.lostUpdatesWithoutGuard} lost updates without it, longest recovery ${figures.longestRecoveryMs} ms`,
      `longest event-loop delay ${figures.longestLoopDelayMs} ms`,
      ...((figures.closes ?? 0) === 0
        ? []
        : [`${figures.closes} closes, at most ${figures.longestCloseMs} ms beyond their drain`]),
    ].join(", "),
  );
  const strikes = Object.entries(struck).map(([name, times]) => `${name} ${times}`);
  console.log(`struck: ${strikes.join(", ")}`);
  // A bad run is a result too: a page made only of good ones would prove nothing.
  if (keepsResult) writeResult(settings, figures, version);
  if (kept === null) return;
  console.log(`FAILED; the histories are in ${kept}`);
  process.exitCode = 1;
}

/** One of each checker before the others: what one mistake causes must not hide it. */
function eachKindFirst<T extends { readonly checker: string }>(all: readonly T[]): T[] {
  const firsts = all.filter((one, at) => all.findIndex(({ checker }) => checker === one.checker) === at);
  return [...firsts, ...all.filter((one) => !firsts.includes(one))];
}

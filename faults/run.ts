// One run: processes and faults, then healing and probes, then everybody leaves, then the verdict. A good run leaves nothing
// behind; the journals of a bad one are kept.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defaultGraceMs } from "../src/core/window.ts";
import { createLocks, type LockInfo, type Locks } from "../src/index.ts";
import { Random } from "../sim/world/random.ts";
import { LONGEST_TTL_MS } from "./client/plan.ts";
import { Crew } from "./crew.ts";
import { type Figures, figuresOf } from "./figures.ts";
import { NEMESIS, readHistories } from "./histories.ts";
import { Journal, nowMs } from "./journal.ts";
import { LoopWatch } from "./loop-watch.ts";
import { torment } from "./nemesis.ts";
import { plugins } from "./plugins/index.ts";
import type { RunSettings } from "./settings.ts";
import { type Target, targets } from "./target.ts";
import { judge, type Verdict } from "./verdict.ts";

/** A probe waits at most half a minute for a key. */
const PROBE_MS = 35_000;
const LOOK_EVERY_MS = 50;
/** A store forgets a waiter that has been silent for five of its claim windows; one more to see it. */
const SILENT_CLAIMS = 6;
const PROGRESS_MS = 5_000;

export interface RunOutcome extends Verdict {
  readonly figures: Figures;
  /** Where the journals are; null when nothing was wrong and they are gone. */
  readonly kept: string | null;
}

export async function run(
  settings: RunSettings,
  progress: (line: string) => void = () => {},
): Promise<RunOutcome> {
  const home = mkdtempSync(join(tmpdir(), "holdfast-faults-"));
  const folder = join(home, "journals");
  mkdirSync(folder);
  const target = await made(settings.store, home);
  try {
    await play(settings, target, home, folder, progress);
  } catch (error) {
    // It could not be run, so there is nothing to judge.
    if (readHistories(folder).events.length === 0) rmSync(home, { recursive: true, force: true });
    else progress(`what was written so far is in ${home}`);
    throw error;
  } finally {
    await target.stop();
  }
  const histories = readHistories(folder);
  const verdict = judge(histories, target.guarantees);
  const good = verdict.violations.length === 0;
  if (good) rmSync(home, { recursive: true, force: true });
  return { ...verdict, figures: figuresOf(verdict, histories), kept: good ? null : home };
}

function made(store: string, home: string): Promise<Target> {
  const make = targets[store];
  if (make === undefined)
    throw new Error(`there is no store ${store}: there are ${Object.keys(targets).join(", ")}`);
  return make(home);
}

async function play(
  settings: RunSettings,
  target: Target,
  home: string,
  folder: string,
  progress: (line: string) => void,
): Promise<void> {
  const plugin = plugins[settings.fault]?.();
  if (plugin === undefined) {
    throw new Error(`there is no fault ${settings.fault}: there are ${Object.keys(plugins).join(", ")}`);
  }
  const journal = new Journal(folder, NEMESIS);
  const watch = new LoopWatch(NEMESIS, journal, () => {});
  const crew = new Crew(settings, target.url, folder, journal);
  const mark = (what: string): void => journal.write({ type: "fault", at: nowMs(), what });
  const startedMs = nowMs();
  const ticker = setInterval(() => progress(soFar(folder, nowMs() - startedMs)), PROGRESS_MS);
  try {
    const under = { crew, target, folder: home, mark };
    await plugin.start(under);
    await crew.start();
    await torment(plugin, under, new Random(settings.seed).fork("nemesis"), settings.seconds);
    await heal(crew, journal);
    await crew.finish();
    await settle(target, journal);
  } finally {
    clearInterval(ticker);
    watch.stop();
    await crew.end();
    journal.close();
  }
}

/** The faults have stopped, the others go on: a newcomer must get every key (P10, P11). */
async function heal(crew: Crew, journal: Journal): Promise<void> {
  journal.write({ type: "healed", at: nowMs(), what: "" });
  const probe = await crew.add("probe");
  await crew.left(probe, PROBE_MS);
}

/** Everybody has closed. When every lease must be over, the store must not know of any (P16). */
async function settle(target: Target, journal: Journal): Promise<void> {
  const closedMs = nowMs();
  const locks = createLocks(target.url);
  try {
    for (;;) {
      const left = await leftIn(locks);
      if (left.length === 0) return;
      const late = left.filter((one) => nowMs() - closedMs > patienceMs(one, target));
      for (const { key, holders, waiters } of late) {
        const what = `${key}: ${holders.length} holders, ${waiters?.length ?? "unknown"} waiters`;
        journal.write({ type: "left-over", at: nowMs(), what });
      }
      if (late.length > 0) return;
      await sleep(LOOK_EVERY_MS);
    }
  } finally {
    await locks.close();
    journal.write({ type: "over", at: nowMs(), what: "" });
  }
}

async function leftIn(locks: Locks): Promise<LockInfo[]> {
  const left: LockInfo[] = [];
  for await (const info of locks.list()) left.push(info);
  return left;
}

/** A lease ends with its time. Who was killed while it waited has not left the line, and is forgotten for its silence. */
function patienceMs({ holders }: LockInfo, { guarantees }: Target): number {
  if (holders.length > 0) return LONGEST_TTL_MS + defaultGraceMs(LONGEST_TTL_MS);
  return SILENT_CLAIMS * guarantees.claimMs;
}

function soFar(folder: string, ms: number): string {
  const { events } = readHistories(folder);
  const count = (type: string): number => events.filter((event) => event.type === type).length;
  return `${(ms / 1_000).toFixed(0)} s: ${count("granted")} grants, ${count("lost")} losses, ${count("fault")} strikes`;
}

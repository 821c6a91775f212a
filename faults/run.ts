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
import { pluginFor } from "./plugins/index.ts";
import type { Plugin } from "./plugins/plugin.ts";
import type { RunSettings } from "./settings.ts";
import { targetNamed } from "./targets/index.ts";
import type { Target } from "./targets/target.ts";
import { expected, judge, type Verdict } from "./verdict.ts";

/** A probe waits at most half a minute for a key. */
const PROBE_MS = 35_000;
const LOOK_EVERY_MS = 50;
/** A store forgets a waiter that has been silent for five of its claim windows; one more to see it. */
const SILENT_CLAIMS = 6;
const PROGRESS_MS = 5_000;

export interface RunOutcome extends Verdict {
  readonly figures: Figures;
  /** What ran behind the store. */
  readonly version: string | null;
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
  const target = await targetNamed(settings.store)(home, settings.fault);
  let plugin: Plugin;
  try {
    plugin = pluginFor(settings.fault, target);
    await play(settings, plugin, target, home, folder, progress);
  } catch (error) {
    // It could not be run, so there is nothing to judge.
    if (readHistories(folder).events.length === 0) rmSync(home, { recursive: true, force: true });
    else progress(`what was written so far is in ${home}`);
    throw error;
  } finally {
    await target.stop();
  }
  const histories = readHistories(folder);
  const verdict = judge(histories, target.guarantees, expected(plugin, target), plugin.setsClocks);
  const good = verdict.violations.length === 0;
  if (good) rmSync(home, { recursive: true, force: true });
  const version = target.version ?? null;
  return { ...verdict, figures: figuresOf(verdict, histories), version, kept: good ? null : home };
}

async function play(
  settings: RunSettings,
  plugin: Plugin,
  target: Target,
  home: string,
  folder: string,
  progress: (line: string) => void,
): Promise<void> {
  const journal = new Journal(folder, NEMESIS);
  const watch = new LoopWatch(NEMESIS, journal, () => {});
  const crew = new Crew(settings, target, folder, journal);
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
    await plugin.end?.();
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
  const locks = createLocks(target.url, { allow: [...(target.allow ?? [])] });
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
  const { freeAfterCrashMs } = guarantees;
  if (holders.length > 0) {
    const leaseMs = LONGEST_TTL_MS + defaultGraceMs(LONGEST_TTL_MS);
    return freeAfterCrashMs === "lease" ? leaseMs : Math.max(leaseMs, freeAfterCrashMs);
  }
  return SILENT_CLAIMS * guarantees.claimMs;
}

function soFar(folder: string, ms: number): string {
  const { events } = readHistories(folder);
  const count = (type: string): number => events.filter((event) => event.type === type).length;
  return `${(ms / 1_000).toFixed(0)} s: ${count("granted")} grants, ${count("lost")} losses, ${count("fault")} strikes`;
}

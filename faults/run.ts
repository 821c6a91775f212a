// One run: processes and faults, then healing and probes, then everybody leaves, then the verdict. A good run leaves nothing
// behind; the journals of a bad one are kept.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defaultGraceMs } from "../src/core/lease/validity-window.ts";
import { createLocks, type LockInfo, type Locks, StoreUnavailableError } from "../src/index.ts";
import { Random } from "../sim/world/random.ts";
import { LONGEST_TTL_MS } from "./client/plan.ts";
import { Crew } from "./crew.ts";
import { type Figures, figuresOf } from "./figures.ts";
import { type Histories, NEMESIS, readHistories } from "./histories.ts";
import { Journal, nowMs } from "./journal.ts";
import { LoopWatch } from "./loop-watch.ts";
import { torment } from "./nemesis.ts";
import { pluginFor } from "./plugins/index.ts";
import { type Plugin, struckBy } from "./plugins/plugin.ts";
import type { RunSettings } from "./settings.ts";
import { targetNamed } from "./targets/index.ts";
import type { Target } from "./targets/target.ts";
import { expected, judge, safeUntilMs, type Verdict } from "./verdict.ts";

/** A probe waits at most half a minute for a key. */
const PROBE_MS = 35_000;
const LIST_MS = 60_000;
const LOOK_EVERY_MS = 50;
/** A store forgets a waiter that has been silent for five of its claim windows; one more to see it. */
const SILENT_CLAIMS = 6;
const PROGRESS_MS = 5_000;

export interface RunOutcome extends Verdict {
  readonly figures: Figures;
  /** How often each fault struck, by name; of a mix each of its parts. */
  readonly struck: Readonly<Record<string, number>>;
  /** What ran behind the store. */
  readonly version: string | null;
  /** Where the journals are; null when nothing was wrong and they are gone. */
  readonly kept: string | null;
}

/** A store that is up, with its folder. It is run on once, or stopped. */
export interface Prepared {
  readonly settings: RunSettings;
  readonly home: string;
  readonly target: Target;
  stop(): Promise<void>;
}

export async function prepare(settings: RunSettings): Promise<Prepared> {
  const home = mkdtempSync(join(tmpdir(), "holdfast-faults-"));
  try {
    const target = await targetNamed(settings.store)(home, settings.fault);
    const stop = async (): Promise<void> => {
      await target.stop();
      rmSync(home, { recursive: true, force: true });
    };
    return { settings, home, target, stop };
  } catch (error) {
    rmSync(home, { recursive: true, force: true });
    throw error;
  }
}

type Progress = (line: string) => void;

export async function run(settings: RunSettings, progress?: Progress): Promise<RunOutcome> {
  return runOn(await prepare(settings), progress);
}

export async function runOn({ settings, home, target }: Prepared, progress?: Progress): Promise<RunOutcome> {
  const folder = join(home, "journals");
  mkdirSync(folder);
  let plugin: Plugin;
  try {
    plugin = pluginFor(settings.fault, target, settings.seed);
    await play(settings, plugin, target, home, folder, progress);
  } catch (error) {
    // It could not be run, so there is nothing to judge.
    if (readHistories(folder).events.length === 0) rmSync(home, { recursive: true, force: true });
    else progress?.(`what was written so far is in ${home}`);
    throw error;
  } finally {
    await target.stop();
  }
  const histories = readHistories(folder);
  const verdict = judge(histories, target.guarantees, {
    expected: expected(plugin, target),
    safeUntilMs: safeUntilMs(plugin, target, histories),
    setsClocks: plugin.setsClocks ?? false,
    graceMs: settings.graceMs,
  });
  const good = verdict.violations.length === 0;
  if (good) rmSync(home, { recursive: true, force: true });
  return {
    ...verdict,
    figures: figuresOf(verdict, histories),
    struck: strikesOf(plugin, histories),
    version: target.version ?? null,
    kept: good ? null : home,
  };
}

/** How often each part of the fault struck, by name. */
function strikesOf(plugin: Plugin, { events }: Histories): Record<string, number> {
  const marks = events.flatMap((event) => (event.type === "fault" ? [event.what] : []));
  if (plugin.parts === undefined) return { [plugin.name]: marks.length };
  const count = (part: Plugin): number => marks.filter((mark) => struckBy(mark, part)).length;
  return Object.fromEntries(plugin.parts.map((part) => [part.name, count(part)]));
}

async function play(
  settings: RunSettings,
  plugin: Plugin,
  target: Target,
  home: string,
  folder: string,
  progress: Progress | undefined,
): Promise<void> {
  const journal = new Journal(folder, NEMESIS);
  const watch = new LoopWatch(NEMESIS, journal, () => {});
  const crew = new Crew(settings, target, folder, journal);
  const mark = (what: string): void => journal.write({ type: "fault", at: nowMs(), what });
  const startedMs = nowMs();
  // Reading takes time in which the parent looks stalled: only where somebody listens.
  const tell = (): void => progress?.(soFar(folder, nowMs() - startedMs));
  const ticker = progress === undefined ? undefined : setInterval(tell, PROGRESS_MS);
  try {
    const under = { crew, target, folder: home, mark };
    await plugin.start(under);
    await crew.start();
    await torment(plugin, under, new Random(settings.seed).fork("nemesis"), settings.seconds);
    await target.settled?.();
    await heal(crew, journal);
    await crew.finish();
    await settle(target, journal, settings.graceMs);
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
async function settle(target: Target, journal: Journal, graceMs: number | undefined): Promise<void> {
  const closedMs = nowMs();
  const locks = createLocks(target.url, { allow: [...(target.allow ?? [])] });
  try {
    for (;;) {
      const left = await leftIn(locks);
      if (left.length === 0) return;
      const late = left.filter((one) => nowMs() - closedMs > patienceMs(one, target, graceMs));
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

/** On a busy machine a server may take longer to answer than one call waits. */
async function leftIn(locks: Locks): Promise<LockInfo[]> {
  for (const limitMs = nowMs() + LIST_MS; ; await sleep(LOOK_EVERY_MS)) {
    try {
      const left: LockInfo[] = [];
      for await (const info of locks.list()) left.push(info);
      return left;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError) || nowMs() > limitMs) throw error;
    }
  }
}

/** A lease ends with its time. Who was killed while it waited has not left the line, and is forgotten for its silence. */
function patienceMs({ holders }: LockInfo, { guarantees }: Target, graceMs: number | undefined): number {
  const { freeAfterCrashMs } = guarantees;
  if (holders.length > 0) {
    const leaseMs = LONGEST_TTL_MS + (graceMs ?? defaultGraceMs(LONGEST_TTL_MS));
    return freeAfterCrashMs === "lease" ? leaseMs : Math.max(leaseMs, freeAfterCrashMs);
  }
  return SILENT_CLAIMS * guarantees.claimMs;
}

function soFar(folder: string, ms: number): string {
  const { events } = readHistories(folder);
  const count = (type: string): number => events.filter((event) => event.type === type).length;
  return `${(ms / 1_000).toFixed(0)} s: ${count("granted")} grants, ${count("lost")} losses, ${count("fault")} strikes`;
}

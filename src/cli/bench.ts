// `holdfast bench`: measures the speed of a store from this machine, three times for a short time. It locks
// keys with a prefix of its own and leaves nothing held.

import type { AllowName, Locks } from "../surface.ts";
import { openLocks, type StoreFlags } from "./options.ts";
import { print, printJson } from "./output.ts";
import { renderTable } from "./format.ts";

export interface BenchFlags extends StoreFlags {
  readonly for?: number;
  readonly tasks?: number;
  readonly allow?: readonly string[];
}

interface Measured {
  readonly what: string;
  readonly sections: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

const FOR_MS = 2_000;
const TASKS = 16;
const KEYS = 1_000;
const OPTIONS = { ttl: 30_000, wait: 30_000 } as const;
const KEY = "holdfast:bench";

export async function bench(flags: BenchFlags): Promise<number> {
  const { locks } = await openLocks(flags, { allow: (flags.allow ?? []) as AllowName[] });
  const { for: ms = FOR_MS, tasks = TASKS } = flags;
  try {
    // The first call opens the store.
    await locks.inspect(KEY);
    const measured = [
      await measure("one task, one key", locks, ms, 1, () => KEY),
      await measure(`${tasks} tasks, ${KEYS} keys`, locks, ms, tasks, rotateKeys),
      await measure(`${tasks} tasks, one key`, locks, ms, tasks, () => KEY),
    ];
    if (flags.json) for (const one of measured) printJson(one);
    else print(renderTable([["", "SECTIONS/S", "P50", "P99", "LONGEST"], ...measured.map(row)]));
    return 0;
  } finally {
    await locks.close();
  }
}

const rotateKeys = (count: number): string => `${KEY}:${count % KEYS}`;

/** `tasks` tasks acquire and release in a loop for `ms`. */
async function measure(
  what: string,
  locks: Locks,
  ms: number,
  tasks: number,
  keyOf: (count: number) => string,
): Promise<Measured> {
  const took: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + ms;
  const task = async (): Promise<void> => {
    do {
      const fromMs = performance.now();
      const lease = await locks.acquire(keyOf(took.length), OPTIONS);
      await lease.release();
      took.push(performance.now() - fromMs);
    } while (performance.now() < endMs);
  };
  await Promise.all(Array.from({ length: tasks }, task));
  const seconds = (performance.now() - startMs) / 1_000;
  const sorted = Float64Array.from(took).sort();
  const at = (part: number): number =>
    Number((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] as number).toFixed(3));
  return {
    what,
    sections: took.length,
    perSecond: Math.round(took.length / seconds),
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    longestMs: at(1),
  };
}

function row({ what, perSecond, p50Ms, p99Ms, longestMs }: Measured): string[] {
  return [what, String(perSecond), ...[p50Ms, p99Ms, longestMs].map((ms) => `${ms.toFixed(2)}ms`)];
}

// The local store against the bare system calls that it is made of, and against what people use today.

import { closeSync, ftruncateSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks, type Locks } from "holdfast";
import { jain, median, quantile, round } from "./lib/stats.ts";
import { together } from "./lib/workers.ts";
import type { HandOffResult } from "./workers/hand-off.ts";
import type { HotKeyResult } from "./workers/hot-key.ts";

const RUNS = 3;
const SECONDS = 3;

export async function run(): Promise<object> {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  try {
    const uncontended = await measureUncontended(dir);
    const handOff = await measureHandOff(dir);
    const waiters = await measureWaiters(dir);
    const hotKey = await measureHotKey(dir);
    return { runs: RUNS, secondsPerRun: SECONDS, uncontended, handOff, waiters, hotKey };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Two rounds of what an acquire and a release cannot do without: append a line, and read what is new. */
function bareRounds(dir: string, count: number): number {
  const fd = openSync(join(dir, "bare"), "a+");
  const page = Buffer.alloc(65_536);
  const line = Buffer.alloc(400, 1);
  const start = process.hrtime.bigint();
  for (let i = 0, at = 0; i < count * 2; i += 1) {
    writeSync(fd, line);
    at += readSync(fd, page, 0, page.length, at);
  }
  const us = Number(process.hrtime.bigint() - start) / 1e3 / count;
  ftruncateSync(fd, 0);
  closeSync(fd);
  return us;
}

async function cycles(locks: Locks, count: number): Promise<number> {
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i += 1) await (await locks.acquire("alone")).release();
  return Number(process.hrtime.bigint() - start) / 1e3 / count;
}

/**
 * Many small batches in turn, so that whatever disturbs the machine disturbs both; the quickest tenth of each
 * is compared.
 */
async function measureUncontended(dir: string): Promise<object> {
  const locks = createLocks(`local:${dir}`);
  const inMemory = createLocks("memory:");
  const samples = { bare: [] as number[], ours: [] as number[], memory: [] as number[] };
  for (let i = 0; i < 300; i += 1) {
    samples.bare.push(bareRounds(dir, 150));
    samples.ours.push(await cycles(locks, 150));
    samples.memory.push(await cycles(inMemory, 150));
  }
  await locks.close();
  await inMemory.close();
  const quick = (of: readonly number[]): number => quantile(of, 0.1);
  const figures = {
    aim: "no aim",
    bareTwoRoundsUs: round(quick(samples.bare)),
    acquireReleaseUs: round(quick(samples.ours)),
    ratio: round(quick(samples.ours) / quick(samples.bare)),
    memoryStoreUs: round(quick(samples.memory)),
    mediansUs: { bare: round(quantile(samples.bare, 0.5)), ours: round(quantile(samples.ours, 0.5)) },
  };
  console.log("uncontended acquire + release", figures);
  return figures;
}

async function measureHandOff(dir: string): Promise<object> {
  const url = `local:${dir}`;
  const results = await together<HandOffResult>("hand-off.ts", [
    { url, seconds: SECONDS },
    { url, seconds: SECONDS },
  ]);
  const all = results
    .flatMap((result, process) =>
      result.sections.map(([fence, got, let_]) => ({ fence: BigInt(fence), got, let_, process })),
    )
    .sort((a, b) => (a.fence < b.fence ? -1 : 1));
  const gaps: number[] = [];
  for (let i = 1; i < all.length; i += 1) {
    const [before, after] = [all[i - 1], all[i]];
    if (before === undefined || after === undefined || before.process === after.process) continue;
    gaps.push(after.got - before.let_);
  }
  const figures = {
    aim: "p50 under 0.5 ms",
    handOffs: gaps.length,
    p50Ms: round(quantile(gaps, 0.5)),
    p99Ms: round(quantile(gaps, 0.99)),
  };
  console.log("hand-off between two processes", figures);
  return figures;
}

async function measureWaiters(dir: string): Promise<object> {
  const count = 10_000;
  const locks = createLocks(`local:${dir}`);
  const holder = await locks.acquire("crowded", { ttl: "1m" });
  const controller = new AbortController();
  const refused: Promise<unknown>[] = [];
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i += 1) {
    refused.push(locks.acquire("crowded", { wait: "1m", signal: controller.signal }).catch(() => {}));
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  globalThis.gc?.();
  const bytes = (process.memoryUsage().heapUsed - before) / count;
  const inStore = (await locks.inspect("crowded"))?.waiters?.length;
  controller.abort();
  await Promise.all(refused);
  await holder.release();
  await locks.close();
  const figures = { tasks: count, bytesPerWaiter: Math.round(bytes), waitersInTheStore: inStore };
  console.log("waiting tasks", figures);
  return figures;
}

interface Contest {
  readonly library: string;
  readonly processes: number;
  readonly tasks: number;
  readonly handoff?: number;
}

async function measureHotKey(dir: string): Promise<object> {
  const contests: readonly Contest[] = [
    { library: "holdfast", processes: 2, tasks: 25 },
    { library: "holdfast", processes: 2, tasks: 25, handoff: 0 },
    { library: "proper-lockfile", processes: 2, tasks: 25 },
    { library: "async-mutex", processes: 1, tasks: 50 },
  ];
  const figures: object[] = [];
  for (const sectionMs of [0, 1]) {
    for (const contest of contests) {
      const runs: { rate: number; jain: number; longest: number }[] = [];
      for (let i = 0; i < RUNS; i += 1) runs.push(await contend(join(dir, `hot-${i}`), contest, sectionMs));
      const line = {
        ...contest,
        sectionMs,
        sectionsPerSecond: mapped(median(runs.map((one) => one.rate))),
        jain: round(
          quantile(
            runs.map((one) => one.jain),
            0.5,
          ),
        ),
        longestWaitMs: round(Math.max(...runs.map((one) => one.longest))),
      };
      console.log("hot key", line);
      figures.push(line);
    }
  }
  return figures;
}

function mapped(spread: { median: number; low: number; high: number }): object {
  return { median: Math.round(spread.median), low: Math.round(spread.low), high: Math.round(spread.high) };
}

async function contend(
  dir: string,
  contest: Contest,
  sectionMs: number,
): Promise<{ rate: number; jain: number; longest: number }> {
  const { processes, ...rest } = contest;
  const settings = Array.from({ length: processes }, () => ({ ...rest, dir, sectionMs, seconds: SECONDS }));
  const results = await together<HotKeyResult>("hot-key.ts", settings);
  const served = results.flatMap((result) => result.served);
  return {
    rate: served.reduce((a, b) => a + b, 0) / SECONDS,
    jain: jain(served),
    longest: Math.max(...results.map((result) => result.longestWaitMs)),
  };
}

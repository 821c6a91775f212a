// One process of a soak: tasks that lock, wait, share, renew and let go of random keys for as long as it lives. It tells what it
// keeps in memory when it is asked.

import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, LockError } from "../../src/index.ts";

export interface SoakSetup {
  readonly url: string;
  readonly keys: number;
  readonly tasks: number;
}

export interface Sample {
  readonly heapMb: number;
  readonly rssMb: number;
  readonly files: number;
  readonly resources: number;
  readonly sections: number;
  readonly refusals: number;
}

const { url, keys, tasks } = JSON.parse(process.argv[2] as string) as SoakSetup;
const locks = createLocks(url, { ttl: "2s", wait: "3s" });
let [sections, refusals, over] = [0, 0, false];

const pick = (most: number): number => Math.floor(Math.random() * most);

async function section(): Promise<void> {
  const chance = Math.random();
  // What is shared, what is counted and what is exclusive have names of their own: a key has one limit.
  const key = `${chance < 0.15 ? "s" : chance < 0.25 ? "c" : "x"}${pick(keys)}`;
  const options = key.startsWith("s")
    ? { mode: Math.random() < 0.8 ? ("shared" as const) : ("exclusive" as const) }
    : key.startsWith("c")
      ? { limit: 3 }
      : {};
  const controller = new AbortController();
  if (Math.random() < 0.05) setTimeout(() => controller.abort(), pick(500));
  await locks.using(key, { ...options, signal: controller.signal }, async () => {
    await sleep(Math.random() < 0.02 ? 2_500 : pick(20));
    sections += 1;
  });
}

async function task(): Promise<void> {
  while (!over) {
    await section().catch((error: unknown) => {
      if (!LockError.is(error)) throw error;
      refusals += 1;
    });
    await sleep(pick(30));
  }
}

function sample(): Sample {
  (globalThis as { gc?: () => void }).gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  return {
    heapMb: heapUsed / 1e6,
    rssMb: rss / 1e6,
    files: readdirSync("/proc/self/fd").length,
    resources: process.getActiveResourcesInfo().length,
    sections,
    refusals,
  };
}

process.on("message", (message: "sample" | "end") => {
  if (message === "end") over = true;
  else process.send?.(sample());
});
await Promise.all(Array.from({ length: tasks }, task));
await locks.close();
process.disconnect?.();

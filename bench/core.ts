// What core itself costs, on the memory store, where nothing else takes time: a cycle of acquire and
// release in a hot loop and one every 12 ms, its promises and garbage; the CPU of idle leases; and 200
// readers and 200 permits of one process on a store with a round trip of 1 ms.

import { createHook } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { OpenStore, Store } from "../src/core/store.ts";
import type * as source from "../src/index.ts";
import type { Locks } from "../src/index.ts";
import type * as store from "../src/stores/memory/index.ts";
import { quantile, round } from "./lib/stats.ts";

// As it is published: what runs TypeScript from source adds calls of its own.
const built = (path: string): string => new URL(`../dist/${path}`, import.meta.url).href;
const { createLocks } = (await import(built("index.js"))) as Pick<typeof source, "createLocks">;
const { memory } = (await import(built("stores/memory/index.js"))) as Pick<typeof store, "memory">;

const HOT_CYCLES = 200_000;
const COLD_CYCLES = 400;
const COLD_EVERY_MS = 12;
const COUNTED_CYCLES = 200;
const IDLE_MS = 20_000;
const IDLE_LEASES = [10_000, 50_000];
const BESIDE = 200;
const ROUND_TRIP_MS = 1;

const cycle = async (locks: Locks): Promise<unknown> => (await locks.acquire("k")).release();

export async function run(): Promise<object> {
  const locks = createLocks(memory());
  const figures = [
    { what: "cold cycle, p50", value: await cold(locks), unit: "us" },
    { what: "hot cycle", value: await hot(locks), unit: "us of CPU" },
    { what: "promises per cycle", value: await promises(locks), unit: "" },
    { what: "garbage per cycle", value: await garbage(locks), unit: "KB" },
    { what: "200 readers in", value: await beside({ mode: "shared" }), unit: "ms" },
    { what: "200 permits in", value: await beside({ limit: BESIDE }), unit: "ms" },
  ];
  for (const count of IDLE_LEASES) {
    figures.push({ what: `${count} idle leases`, value: await idle(count), unit: "% of a core" });
  }
  await locks.close();
  console.table(figures);
  return { figures };
}

async function cold(locks: Locks): Promise<number> {
  const samples: number[] = [];
  for (let i = 0; i < COLD_CYCLES; i += 1) {
    await sleep(COLD_EVERY_MS);
    const startMs = performance.now();
    await cycle(locks);
    samples.push((performance.now() - startMs) * 1_000);
  }
  return round(quantile(samples, 0.5));
}

async function hot(locks: Locks): Promise<number> {
  for (let i = 0; i < HOT_CYCLES / 10; i += 1) await cycle(locks);
  const before = process.cpuUsage();
  for (let i = 0; i < HOT_CYCLES; i += 1) await cycle(locks);
  const { user, system } = process.cpuUsage(before);
  return round((user + system) / HOT_CYCLES);
}

/** Those of this file are taken off. */
async function promises(locks: Locks): Promise<number> {
  let made = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "PROMISE") made += 1;
    },
  }).enable();
  const bare = { acquire: () => Promise.resolve({ release: () => Promise.resolve(true) }) };
  for (let i = 0; i < COUNTED_CYCLES; i += 1) await cycle(bare as unknown as Locks);
  const own = made - 2 * COUNTED_CYCLES;
  made = 0;
  for (let i = 0; i < COUNTED_CYCLES; i += 1) await cycle(locks);
  hook.disable();
  return round((made - own) / COUNTED_CYCLES);
}

async function garbage(locks: Locks): Promise<number> {
  const samples: number[] = [];
  for (let i = 0; i < 21; i += 1) {
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < COUNTED_CYCLES; at += 1) await cycle(locks);
    samples.push((process.memoryUsage().heapUsed - before) / COUNTED_CYCLES / 1_024);
  }
  return round(quantile(samples, 0.5));
}

async function idle(count: number): Promise<number> {
  const locks = createLocks(memory());
  const leases = [];
  for (let i = 0; i < count; i += 1) {
    leases.push(await locks.acquire(`idle ${i}`));
    // As in a program that takes its leases over time: they fall due over time.
    if (i % (count / 100) === 0) await sleep(50);
  }
  await sleep(5_000);
  const [cpu, startMs] = [process.cpuUsage(), performance.now()];
  await sleep(IDLE_MS);
  const { user, system } = process.cpuUsage(cpu);
  const percent = (user + system) / 10 / (performance.now() - startMs);
  if (!leases.every((lease) => lease.held)) throw new Error("an idle lease was lost");
  await locks.close({ drain: 0 });
  return round(percent);
}

async function beside(options: { mode?: "shared"; limit?: number }): Promise<number> {
  const samples: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    const locks = createLocks(distant());
    await (await locks.acquire("first")).release();
    const startMs = performance.now();
    const leases = await Promise.all(Array.from({ length: BESIDE }, () => locks.acquire("k", options)));
    samples.push(performance.now() - startMs);
    await Promise.all(leases.map((lease) => lease.release()));
    await locks.close();
  }
  return round(quantile(samples, 0.5));
}

/** The memory store behind a round trip. */
function distant(): Store {
  const near = memory();
  const behind = (open: OpenStore): OpenStore =>
    new Proxy(open, {
      get(target, name) {
        if (name === "direct") return undefined;
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        const method = value.bind(target) as (...values: unknown[]) => unknown;
        if (name !== "attempt" && name !== "release") return method;
        return (...values: unknown[]) => sleep(ROUND_TRIP_MS).then(() => method(...values));
      },
    });
  return { ...near, open: async (env) => behind(await near.open(env)) };
}

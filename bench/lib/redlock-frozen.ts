// What nodes that stand still cost: one, two and three of five stopped by SIGSTOP, and what is left on them when they go on.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createLocks, QuorumError } from "holdfast";
import { Redis } from "ioredis";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { contender, PEERS, redlockUrl } from "./redlock-peers.ts";
import { quantile, round } from "./stats.ts";

const SAMPLES = 600;
const PEER_MS = 6_000;
const REFUSED = 20;
const WAIT_MS = 300;
/** min(2 s, ttl / 3) with the default ttl of 30 s: P13 says that an acquire settles within its wait and this. */
const CALL_MS = 2_000;
const AFTERWARDS_MS = 1_000;
const MEMORY_CYCLES = 100_000;
const TASKS = 64;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

export async function frozen(nodes: readonly RunningServer[]): Promise<object> {
  const urls = nodes.map(({ url }) => url);
  const locks = createLocks(redlockUrl(urls), { allow: ["fresh-nodes"] });
  const p50 = async (): Promise<number> => {
    const samples: number[] = [];
    for (let i = 0; i < SAMPLES; i += 1) {
      const start = process.hrtime.bigint();
      const lease = await locks.acquire("frozen");
      samples.push(Number(process.hrtime.bigint() - start) / 1e3);
      await lease.release();
    }
    return quantile(samples, 0.5);
  };
  await p50();
  const healthyUs = await p50();
  const stopped = async <T>(count: number, work: () => Promise<T>): Promise<T> => {
    for (const node of nodes.slice(0, count)) node.kill("SIGSTOP");
    try {
      return await work();
    } finally {
      for (const node of nodes) node.kill("SIGCONT");
    }
  };
  const oneUs = await stopped(1, p50);
  const oneFrozenMemory = await stopped(1, () => memory(locks));
  const again = await p50();
  const twoUs = await stopped(2, p50);
  const refusals = await stopped(3, () => refused(locks));
  await locks.close();
  await new Promise((resolve) => setTimeout(resolve, AFTERWARDS_MS));
  return {
    aims: [
      "one frozen at most 1.2 x all healthy, memory flat",
      "three frozen: QuorumError in time, nothing left behind",
    ],
    acquireP50Us: {
      healthy: round(healthyUs),
      oneFrozen: round(oneUs),
      healthyAgain: round(again),
      twoFrozen: round(twoUs),
      oneFrozenOfHealthy: round(oneUs / Math.min(healthyUs, again)),
    },
    oneFrozenMemory,
    threeFrozen: { ...refusals, leftBehind: await leftOn(urls) },
    firstAcquireOfPeersWithOneFrozenMs: await peers(urls, stopped),
  };
}

/** What many cycles leave behind. The first tenth fills what is bounded. */
async function memory(locks: ReturnType<typeof createLocks>): Promise<object> {
  await crowd(locks, MEMORY_CYCLES / 10);
  const before = heapMb();
  await crowd(locks, MEMORY_CYCLES);
  return { cycles: MEMORY_CYCLES, heapMb: round(before), growthMb: round(heapMb() - before) };
}

async function crowd(locks: ReturnType<typeof createLocks>, cycles: number): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: TASKS }, async (_, task) => {
      while (next++ < cycles) await (await locks.acquire(`memory-${task}`)).release();
    }),
  );
}

function heapMb(): number {
  for (let i = 0; i < 3; i += 1) collectGarbage();
  return process.memoryUsage().heapUsed / 1e6;
}

async function refused(locks: ReturnType<typeof createLocks>): Promise<object> {
  const took: number[] = [];
  const names = new Map<string, number>();
  for (let i = 0; i < REFUSED; i += 1) {
    const startMs = performance.now();
    // Half of them wait.
    const wait = i % 2 === 0 ? 0 : WAIT_MS;
    const name = await locks.acquire(`refused-${i}`, { wait }).then(
      () => "granted",
      (error: unknown) => (error instanceof QuorumError ? "QuorumError" : String(error)),
    );
    took.push(performance.now() - startMs - wait);
    names.set(name, (names.get(name) ?? 0) + 1);
  }
  return {
    outcomes: Object.fromEntries(names),
    longestMs: Math.round(Math.max(...took)),
    boundMs: CALL_MS,
  };
}

/** A record that names a holder or a waiter carries its label, which begins with the process that asked. */
async function leftOn(urls: readonly string[]): Promise<number> {
  let left = 0;
  for (const url of urls) {
    const client = new Redis(url);
    for (const name of await client.keys("*refused-*")) {
      const record = await client.getBuffer(name);
      if (record?.includes(String(process.pid)) === true) left += 1;
    }
    client.disconnect();
  }
  return left;
}

async function peers(
  urls: readonly string[],
  stopped: <T>(count: number, work: () => Promise<T>) => Promise<T>,
): Promise<object> {
  const figures: Record<string, number | string> = {};
  for (const library of PEERS) {
    const one = await contender(library, urls);
    await (
      await one.take(`warm-${library}`)
    )();
    figures[library] = await stopped(1, async () => {
      const startMs = performance.now();
      const tooLong = new Promise<string>((resolve) => {
        setTimeout(resolve, PEER_MS, `more than ${PEER_MS}`);
      });
      const took = one.take(`frozen-${library}`).then(
        () => round(performance.now() - startMs),
        (error: unknown) => `failed: ${String(error).slice(0, 80)}`,
      );
      return Promise.race([took, tooLong]);
    });
    await one.end();
  }
  return figures;
}

// What processes cost that wait for one key of five masters, while its holder keeps it and then while it goes
// through all of them.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "holdfast";
import type { ServerMeter } from "./redis-meter.ts";
import { redlockUrl } from "./redlock-peers.ts";
import { round } from "./stats.ts";
import { startWorker } from "./workers.ts";

const WAITERS = Number(process.env["BENCH_WAITERS"] ?? 100);
const STARTED_AT_ONCE = 5;
/** The interval of a waiter grows with the time waited. */
const SETTLE_MS = 12_000;
const IDLE_MS = 10_000;
const KEY = "waiting";
/** Of the processor times in /proc. */
const TICK_US = 10_000;

export async function waiting(urls: readonly string[], meters: readonly ServerMeter[]): Promise<object> {
  const locks = createLocks(redlockUrl(urls), { allow: ["fresh-nodes"] });
  try {
    const lease = await locks.acquire(KEY);
    const workers = [];
    for (let at = 0; at < WAITERS; at += 1) {
      const worker = startWorker("redlock-waiter.mjs", { url: redlockUrl(urls), key: KEY });
      workers.push(worker);
      if (at % STARTED_AT_ONCE === 0) await worker.ready;
    }
    await Promise.all(workers.map((worker) => worker.ready));
    for (const worker of workers) worker.go();
    while (((await locks.inspect(KEY))?.waiters?.length ?? 0) < WAITERS) await sleep(200);
    await sleep(SETTLE_MS);
    const pids = workers.map(({ pid }) => pid);
    const [before, clientsBefore] = [await read(meters), cpuUs(pids)];
    await sleep(IDLE_MS);
    const clientsUs = cpuUs(pids) - clientsBefore;
    const idle = await since(meters, before);
    const [busyBefore, releasedMs] = [await read(meters), performance.now()];
    await lease.release();
    await Promise.all(workers.map((worker) => worker.result));
    const allMs = performance.now() - releasedMs;
    const handedOn = await since(meters, busyBefore);
    return {
      processes: WAITERS,
      aim: "a release does not wake everybody",
      idle: {
        nodesPercentOfACore: round(idle.cpuUs / IDLE_MS / 10),
        clientsPercentOfACore: round(clientsUs / IDLE_MS / 10),
        scriptsPerSecond: round(idle.scripts / (IDLE_MS / 1_000)),
      },
      msPerHandOff: round(allMs / WAITERS),
      scriptsPerNodeAndHandOff: round(handedOn.scripts / WAITERS / urls.length),
    };
  } finally {
    await locks.close();
  }
}

interface Spent {
  readonly cpuUs: number;
  readonly scripts: number;
}

async function read(
  meters: readonly ServerMeter[],
): Promise<readonly Awaited<ReturnType<ServerMeter["read"]>>[]> {
  return Promise.all(meters.map((meter) => meter.read()));
}

async function since(
  meters: readonly ServerMeter[],
  before: Awaited<ReturnType<typeof read>>,
): Promise<Spent> {
  const each = await Promise.all(before.map((reading, at) => (meters[at] as ServerMeter).since(reading)));
  const sum = (one: keyof Spent): number => each.reduce((all, reading) => all + reading[one], 0);
  return { cpuUs: sum("cpuUs"), scripts: sum("scripts") };
}

/** Processor time of these processes, as Linux counts it. */
function cpuUs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const words = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return sum + (Number(words[11]) + Number(words[12])) * TICK_US;
  }, 0);
}

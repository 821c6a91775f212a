// The redis store beside the bare clients and what people use today, on one Redis that is started for it.
// Ratios in one run count.

import { createHook } from "node:async_hooks";
import { startRedis } from "../scripts/servers/redis.ts";
import { createLocks } from "holdfast";
import { commandsOf, type Contender, contender, type Library, PEERS } from "./lib/redis-peers.ts";
import { ServerMeter } from "./lib/redis-meter.ts";
import { jain, median, quantile, round } from "./lib/stats.ts";
import { together } from "./lib/workers.ts";
import type { HandOffResult } from "./workers/hand-off.ts";
import type { HotKeyResult } from "./workers/hot-key.ts";

const RUNS = Number(process.env["BENCH_RUNS"] ?? 3);
const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 2);
/** Batches until what is called often has been compiled. */
const WARM_UP = 10;
const BARE: readonly Library[] = ["bare ioredis", "bare node-redis"];
const OURS: readonly Library[] = ["holdfast", "holdfast, node-redis", "holdfast, ioredis"];
const OVER_NODE_REDIS: readonly Library[] = ["bare node-redis", "holdfast", "holdfast, node-redis"];
const ALL: readonly Library[] = [...BARE, ...OURS, ...PEERS];
/** A cold cycle finds caches and branch predictors as a real program leaves them. */
const COLD_EVERY_MS = 12;
const COLD_CYCLES = 150;

export async function run(): Promise<object> {
  const server = await startRedis({ own: true });
  const meter = await ServerMeter.open(server.url);
  try {
    return {
      runs: RUNS,
      secondsPerRun: SECONDS,
      sequential: await sequential(server.url),
      cold: await cold(server.url),
      perCycle: await perCycle(server.url),
      manyKeys: await manyKeys(server.url, meter),
      hotKey: await hotKey(server.url, meter),
      handOff: await handOff(server.url),
      waiters: await waiters(server.url, meter),
      leases: await leases(server.url, meter),
    };
  } finally {
    meter.close();
    await server.stop();
  }
}

async function withAll<T>(
  libraries: readonly Library[],
  url: string,
  work: (all: ReadonlyMap<Library, Contender>) => Promise<T>,
): Promise<T> {
  const all = new Map<Library, Contender>();
  for (const library of libraries) all.set(library, await contender(library, url));
  try {
    return await work(all);
  } finally {
    for (const one of all.values()) await one.end();
  }
}

async function cycle(one: Contender, key: string): Promise<void> {
  await (
    await one.take(key)
  )();
}

/** One after another, in turn, so that whatever disturbs the machine disturbs all. */
function sequential(url: string): Promise<object> {
  return withAll(ALL, url, async (all) => {
    const samples = new Map([...all.keys()].map((name) => [name, [] as number[]]));
    for (let batch = -WARM_UP; batch < 30; batch += 1) {
      for (const [name, one] of all) {
        for (let i = 0; i < 40; i += 1) {
          const us = await timed(one, name);
          if (batch >= 0) samples.get(name)?.push(us);
        }
      }
    }
    return shown("acquire + release, one after another", {
      aim: "p50 at most 1.25 x bare with the same client",
      figures: latencies(samples),
    });
  });
}

/** One cycle every 12 ms, in turn. */
function cold(url: string): Promise<object> {
  return withAll(ALL, url, async (all) => {
    const samples = new Map([...all.keys()].map((name) => [name, [] as number[]]));
    for (let i = 0; i < COLD_CYCLES; i += 1) {
      // The first of ours in a row warms the processor's caches for the others.
      const order = i % 2 === 0 ? [...all] : [...all].reverse();
      for (const [name, one] of order) {
        await new Promise((resolve) => setTimeout(resolve, COLD_EVERY_MS));
        samples.get(name)?.push(await timed(one, name));
      }
    }
    return shown("acquire + release, one every 12 ms", {
      aim: "p50 at most 1.35 x bare with the same client",
      figures: latencies(samples),
    });
  });
}

async function timed(one: Contender, name: string): Promise<number> {
  const start = process.hrtime.bigint();
  await cycle(one, `alone-${name}`);
  return Number(process.hrtime.bigint() - start) / 1e3;
}

function latencies(samples: ReadonlyMap<Library, readonly number[]>): object[] {
  const p50 = (name: Library): number => quantile(samples.get(name) ?? [], 0.5);
  return [...samples].map(([library, us]) => ({
    library,
    p50Us: round(p50(library)),
    p10Us: round(quantile(us, 0.1)),
    p99Us: round(quantile(us, 0.99)),
    ofBare: round(p50(library) / p50(bareOf(library))),
  }));
}

/** What a library is compared with: the bare client that it uses itself, or the faster one. */
function bareOf(library: Library): Library {
  return OVER_NODE_REDIS.includes(library) ? "bare node-redis" : "bare ioredis";
}

/** Promises and garbage of a cycle, without those of the caller. */
function perCycle(url: string): Promise<object> {
  return withAll([...BARE, ...OURS], url, async (all) => {
    const figures: object[] = [];
    for (const [library, one] of all) {
      for (let i = 0; i < 2_000; i += 1) await cycle(one, "counted");
      figures.push({ library, promises: await promisesOf(one), kilobytes: await garbageOf(one) });
    }
    return shown("per acquire + release", { aim: "12 promises, 5 KB", figures });
  });
}

const COUNTED = 200;

async function promisesOf(one: Contender): Promise<number> {
  let made = 0;
  const hook = createHook({ init: (_id, type) => void (made += type === "PROMISE" ? 1 : 0) }).enable();
  for (let i = 0; i < COUNTED; i += 1) await cycle(one, "counted");
  hook.disable();
  return round(made / COUNTED);
}

async function garbageOf(one: Contender): Promise<number> {
  const samples: number[] = [];
  for (let i = 0; i < 21; i += 1) {
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < COUNTED; at += 1) await cycle(one, "counted");
    samples.push((process.memoryUsage().heapUsed - before) / COUNTED / 1_024);
  }
  return round(quantile(samples, 0.5));
}

function manyKeys(url: string, meter: ServerMeter): Promise<object> {
  return withAll(ALL, url, async (all) => {
    const rates = new Map([...all.keys()].map((name) => [name, [] as number[]]));
    const costs = new Map<Library, object>();
    for (let i = 0; i < RUNS; i += 1) {
      for (const [name, one] of all) {
        await crowd(one, 0.3);
        const before = await meter.read();
        const cpu = process.cpuUsage();
        const count = await crowd(one, SECONDS);
        const used = process.cpuUsage(cpu);
        const done = await meter.since(before);
        rates.get(name)?.push(count / SECONDS);
        costs.set(name, {
          commandsPerCycle: round(commandsOf(name, done) / count),
          serverCpuUs: round(done.cpuUs / count),
          clientCpuUs: round((used.user + used.system) / count),
        });
      }
    }
    const middle = (library: Library): number => median(rates.get(library) ?? []).median;
    return shown("64 tasks on 10,000 keys", {
      aim: "cycles per second at least 1.8 x bare and above every peer",
      figures: [...rates].map(([library, rate]) => ({
        library,
        cyclesPerSecond: rounded(median(rate)),
        ofBare: round(middle(library) / middle(bareOf(library))),
        ...costs.get(library),
      })),
    });
  });
}

async function crowd(one: Contender, seconds: number): Promise<number> {
  const endMs = performance.now() + seconds * 1_000;
  let [count, next] = [0, 0];
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      while (performance.now() < endMs) {
        await cycle(one, `many-${next++ % 10_000}`);
        count += 1;
      }
    }),
  );
  return count;
}

interface Contest {
  readonly library: Library | "async-mutex";
  readonly processes: number;
  readonly tasks: number;
  readonly options?: object;
}

async function hotKey(url: string, meter: ServerMeter): Promise<object> {
  const contests: readonly Contest[] = [
    { library: "async-mutex", processes: 1, tasks: 50 },
    { library: "holdfast", processes: 2, tasks: 25 },
    { library: "holdfast", processes: 2, tasks: 25, options: { handoff: 0 } },
    ...PEERS.map((library) => ({ library, processes: 2, tasks: 25 })),
  ];
  const figures: object[] = [];
  for (const sectionMs of [1, 0]) {
    for (const contest of contests) {
      const { processes, ...rest } = contest;
      const before = await meter.read();
      const key = `hot-${figures.length}`;
      const each = { ...rest, url, key, sectionMs, seconds: SECONDS };
      const results = await together<HotKeyResult>(
        "redis-hot.ts",
        Array.from({ length: processes }, () => each),
      );
      const served = results.flatMap((result) => result.served);
      const sections = served.reduce((a, b) => a + b, 0);
      const commands = commandsOf(contest.library, await meter.since(before));
      const line = {
        ...contest,
        sectionMs,
        sectionsPerSecond: Math.round(sections / SECONDS),
        jain: round(jain(served)),
        longestWaitMs: Math.round(Math.max(...results.map((result) => result.longestWaitMs))),
        commandsPerSection: round(commands / Math.max(1, sections)),
      };
      console.log("hot key", line);
      figures.push(line);
    }
  }
  return {
    aims: [
      "1 ms: at least 0.9 x async-mutex, longest wait under 150 ms",
      "empty: at least 20 x the best peer, Jain 0.99, longest wait under 100 ms",
      "handoff 0: above every peer that is as fair",
      "at most 0.1 commands per section",
    ],
    figures,
  };
}

/** From the call of release to the grant of the other process, which is surely queued; beside a bare PUBLISH. */
async function handOff(url: string): Promise<object> {
  const bare = await together<{ readonly ms: readonly number[] }>("publish.ts", [
    { url, seconds: SECONDS, role: "send" },
    { url, seconds: SECONDS, role: "receive" },
  ]);
  const published = bare.flatMap(({ ms }) => ms);
  const barePublish = { p50Ms: round(quantile(published, 0.5)), p99Ms: round(quantile(published, 0.99)) };
  const figures: object[] = [{ library: "bare PUBLISH", ...barePublish }];
  for (const sectionMs of [3, 0]) {
    const gaps = await handOffGaps(url, sectionMs);
    figures.push({
      library: `holdfast, section of ${sectionMs} ms`,
      handOffs: gaps.length,
      p50Ms: round(quantile(gaps, 0.5)),
      p99Ms: round(quantile(gaps, 0.99)),
      ofBare: round(quantile(gaps, 0.5) / barePublish.p50Ms),
    });
  }
  return shown("hand-off between two processes", { aim: "p50 at most 2.5 x a bare PUBLISH", figures });
}

async function handOffGaps(url: string, sectionMs: number): Promise<number[]> {
  const each = { url, seconds: SECONDS, sectionMs, key: `hand-off-${sectionMs}` };
  const results = await together<HandOffResult>("hand-off.ts", [each, each]);
  const all = results
    .flatMap((result, process) =>
      result.sections.map(([fence, got, left]) => ({ fence: BigInt(fence), got, left, process })),
    )
    .sort((a, b) => (a.fence < b.fence ? -1 : 1));
  return all.flatMap((after, i) => {
    const before = all[i - 1];
    return before === undefined || before.process === after.process ? [] : [after.got - before.left];
  });
}

/** 10,000 tasks that wait for one key, then 200 that wait for one each. */
async function waiters(url: string, meter: ServerMeter): Promise<object> {
  const figures: object[] = [];
  for (const { tasks, keys } of [
    { tasks: 10_000, keys: 1 },
    { tasks: 200, keys: 200 },
  ]) {
    const [holder, waiting] = [createLocks(url), createLocks(url)];
    const held = await Promise.all(
      Array.from({ length: keys }, (_, i) => holder.acquire(`crowd-${keys}-${i}`)),
    );
    const controller = new AbortController();
    const refused = Array.from({ length: tasks }, (_, i) =>
      waiting
        .acquire(`crowd-${keys}-${i % keys}`, {
          wait: "1m",
          signal: controller.signal,
        })
        .catch(() => {}),
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const before = await meter.read();
    await new Promise((resolve) => setTimeout(resolve, SECONDS * 1_000));
    const { scripts: commands, cpuUs } = await meter.since(before);
    figures.push({
      tasks,
      keys,
      commandsPerSecond: Math.round(commands / SECONDS),
      commandsPerWaiterSecond: round(commands / SECONDS / keys),
      serverCore: round(cpuUs / 1e6 / SECONDS),
    });
    controller.abort();
    await Promise.all(refused);
    await Promise.all(held.map((lease) => lease.release()));
    await holder.close();
    await waiting.close();
  }
  return shown("waiting tasks", {
    peers: "36,000 to 71,000 commands per second, 30 to 66% of a core",
    figures,
  });
}

async function leases(url: string, meter: ServerMeter): Promise<object> {
  const locks = createLocks(url, { ttl: "6s" });
  const held = await Promise.all(Array.from({ length: 5_000 }, (_, i) => locks.acquire(`held-${i}`)));
  const before = await meter.read();
  const seconds = 6;
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
  const { scripts: commands, cpuUs, bytesIn } = await meter.since(before);
  const lost = held.filter((lease) => !lease.held).length;
  await Promise.all(held.map((lease) => lease.release()));
  await locks.close();
  return shown("5,000 held leases of 6 s", {
    lost,
    commandsPerSecond: round(commands / seconds),
    bytesPerSecond: Math.round(bytesIn / seconds),
    serverCore: round(cpuUs / 1e6 / seconds),
  });
}

function rounded({ median: middle, low, high }: ReturnType<typeof median>): object {
  return {
    median: Math.round(middle),
    low: Math.round(low),
    high: Math.round(high),
  };
}

function shown<T extends object>(title: string, figures: T): T {
  console.log(title);
  console.dir(figures, { depth: 4 });
  return figures;
}

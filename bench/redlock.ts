// The redlock store beside bare clients and what people use today, on the same five masters, which are started for it. Ratios in one
// run count.

import type { RunningServer } from "../scripts/servers/process.ts";
import { startRedis } from "../scripts/servers/redis.ts";
import { type Reading, ServerMeter } from "./lib/redis-meter.ts";
import type { Contender } from "./lib/redis-peers.ts";
import { frozen } from "./lib/redlock-frozen.ts";
import { waiting } from "./lib/redlock-waiting.ts";
import { contender, type Library, PEERS } from "./lib/redlock-peers.ts";
import { jain, median, quantile, round } from "./lib/stats.ts";
import { together } from "./lib/workers.ts";
import type { HotKeyResult } from "./workers/hot-key.ts";

const NODES = 5;
const RUNS = Number(process.env["BENCH_RUNS"] ?? 3);
const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 2);
const ALL: readonly Library[] = ["bare", "holdfast", ...PEERS];
/** Those that take a key by SET, and not by a script. */
const BY_SET: readonly Library[] = ["bare", "redlock-universal", "redis-semaphore"];
const PROCESSES = 2;
const TASKS = 5;

export async function run(): Promise<object> {
  const nodes: RunningServer[] = [];
  const meters: ServerMeter[] = [];
  try {
    for (let at = 0; at < NODES; at += 1) nodes.push(await startRedis({ own: true }));
    for (const { url } of nodes) meters.push(await ServerMeter.open(url));
    const urls = nodes.map(({ url }) => url);
    return {
      nodes: NODES,
      runs: RUNS,
      secondsPerRun: SECONDS,
      sequential: await sequential(urls),
      manyKeys: await manyKeys(urls, meters),
      hotKey: await hotKey(urls, meters),
      waiting: shown("processes that wait", await waiting(urls, meters)),
      frozen: shown("nodes that stand still", await frozen(nodes)),
    };
  } finally {
    for (const meter of meters) meter.close();
    await Promise.all(nodes.map((node) => node.stop()));
  }
}

/** Of all nodes together. */
async function read(meters: readonly ServerMeter[]): Promise<readonly Reading[]> {
  return Promise.all(meters.map((meter) => meter.read()));
}

async function commandsSince(
  library: Library,
  meters: readonly ServerMeter[],
  before: readonly Reading[],
): Promise<number> {
  const done = await Promise.all(meters.map((meter, at) => meter.since(before[at] as Reading)));
  return done.reduce((sum, one) => sum + one.scripts + (BY_SET.includes(library) ? one.sets : 0), 0);
}

async function withAll<T>(
  urls: readonly string[],
  work: (all: ReadonlyMap<Library, Contender>) => Promise<T>,
): Promise<T> {
  const all = new Map<Library, Contender>();
  for (const library of ALL) all.set(library, await contender(library, urls));
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
function sequential(urls: readonly string[]): Promise<object> {
  return withAll(urls, async (all) => {
    const samples = new Map([...all.keys()].map((name) => [name, [] as number[]]));
    for (let batch = -2; batch < 30; batch += 1) {
      for (const [name, one] of all) {
        for (let i = 0; i < 40; i += 1) {
          const start = process.hrtime.bigint();
          await cycle(one, `alone-${name}`);
          if (batch >= 0) samples.get(name)?.push(Number(process.hrtime.bigint() - start) / 1e3);
        }
      }
    }
    const p50 = (name: Library): number => quantile(samples.get(name) ?? [], 0.5);
    const best = Math.min(...PEERS.map(p50));
    return shown("acquire + release, one after another", {
      aim: "p50 at most that of the best peer",
      figures: [...samples].map(([library, us]) => ({
        library,
        p50Us: round(quantile(us, 0.5)),
        p10Us: round(quantile(us, 0.1)),
        p99Us: round(quantile(us, 0.99)),
        ofBare: round(p50(library) / p50("bare")),
        ofBestPeer: round(p50(library) / best),
      })),
    });
  });
}

function manyKeys(urls: readonly string[], meters: readonly ServerMeter[]): Promise<object> {
  return withAll(urls, async (all) => {
    const rates = new Map([...all.keys()].map((name) => [name, [] as number[]]));
    const costs = new Map<Library, object>();
    for (let i = 0; i < RUNS; i += 1) {
      for (const [name, one] of all) {
        await crowd(one, 0.3);
        const before = await read(meters);
        const cpu = process.cpuUsage();
        const count = await crowd(one, SECONDS);
        const used = process.cpuUsage(cpu);
        const commands = await commandsSince(name, meters, before);
        rates.get(name)?.push(count / SECONDS);
        costs.set(name, {
          commandsPerCycle: round(commands / count),
          clientCpuUs: round((used.user + used.system) / count),
        });
      }
    }
    const rate = (name: Library): number => median(rates.get(name) ?? []).median;
    const best = Math.max(...PEERS.map(rate));
    return shown("64 tasks on 10,000 keys", {
      aim: "cycles per second at least twice the best peer's",
      figures: [...rates].map(([library, all64]) => ({
        library,
        cyclesPerSecond: rounded(median(all64)),
        ofBare: round(rate(library) / rate("bare")),
        ofBestPeer: round(rate(library) / best),
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

async function hotKey(urls: readonly string[], meters: readonly ServerMeter[]): Promise<object> {
  const figures: { library: Library; sectionMs: number; sectionsPerSecond: number }[] = [];
  for (const sectionMs of [0, 1]) {
    for (const library of ["holdfast" as const, ...PEERS]) {
      const before = await read(meters);
      const each = {
        library,
        urls,
        key: `hot-${figures.length}`,
        tasks: TASKS,
        sectionMs,
        seconds: SECONDS * 2,
      };
      const results = await together<HotKeyResult>(
        "redlock-hot.ts",
        Array.from({ length: PROCESSES }, () => each),
      );
      const served = results.flatMap((result) => result.served);
      const sections = served.reduce((a, b) => a + b, 0);
      const commands = await commandsSince(library, meters, before);
      const line = {
        library,
        sectionMs,
        sectionsPerSecond: round(sections / each.seconds),
        jain: round(jain(served)),
        longestWaitMs: Math.round(Math.max(...results.map((result) => result.longestWaitMs))),
        commandsPerSection: round(commands / Math.max(1, sections)),
      };
      console.log("hot key", line);
      figures.push(line);
    }
  }
  const rate = (library: Library, sectionMs: number): number =>
    figures.find((one) => one.library === library && one.sectionMs === sectionMs)?.sectionsPerSecond ?? 0;
  const ofBestPeer = (sectionMs: number): number =>
    round(rate("holdfast", sectionMs) / Math.max(...PEERS.map((peer) => rate(peer, sectionMs))));
  return {
    processes: PROCESSES,
    tasksInEach: TASKS,
    aim: "empty section: at least 20 x the best peer",
    ofBestPeer: { emptySection: ofBestPeer(0), oneMsSection: ofBestPeer(1) },
    figures,
  };
}

function rounded({ median: middle, low, high }: ReturnType<typeof median>): object {
  return { median: Math.round(middle), low: Math.round(low), high: Math.round(high) };
}

function shown<T extends object>(title: string, figures: T): T {
  console.log(title);
  console.dir(figures, { depth: 4 });
  return figures;
}

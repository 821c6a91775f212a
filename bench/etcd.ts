// The etcd store against the bare transactions it is made of, and against the package that people use today. Servers write to memory
// (--unsafe-no-fsync) for both, so that the disk of this machine is not what is measured.

import * as grpc from "@grpc/grpc-js";
import { createLocks, type Locks } from "holdfast";
import { type EtcdCluster, startEtcdCluster } from "../scripts/servers/etcd.ts";
import { Cluster } from "../src/stores/etcd/cluster/cluster.ts";
import { nodeSystem } from "../src/system/node.ts";
import { jain, median, quantile, round } from "./lib/stats.ts";
import { startWorker, together } from "./lib/workers.ts";
import type { CrowdResult } from "./workers/etcd-crowd.ts";
import type { EtcdHotKeyResult } from "./workers/etcd-hot-key.ts";
import type { HandOffResult } from "./workers/hand-off.ts";

const RUNS = 3;
const SECONDS = 2;
const BATCHES = 40;
const PER_BATCH = 20;

export async function run(): Promise<object> {
  const figures: Record<string, object> = {};
  for (const count of [1, 3]) {
    const cluster = await startEtcdCluster({ count });
    const name = count === 1 ? "oneNode" : "threeNodes";
    try {
      figures[name] = {
        uncontended: await measureUncontended(cluster),
        handOff: await measureHandOff(cluster),
        ...(count === 3 ? { crowd: await measureCrowd(cluster), hotKey: await measureHotKey(cluster) } : {}),
      };
    } finally {
      await cluster.stop();
    }
  }
  return { runs: RUNS, secondsPerRun: SECONDS, ...figures };
}

async function timed(count: number, work: () => Promise<unknown>): Promise<number> {
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i += 1) await work();
  return Number(process.hrtime.bigint() - start) / 1e6 / count;
}

/** One transaction that creates a key on a lease if it is not there, and one that deletes it: over the very same client. */
async function bareTransactions(cluster: EtcdCluster): Promise<{ cycle(): Promise<void>; close(): void }> {
  const endpoints = cluster.members.map(({ endpoint }) => endpoint);
  const client = new Cluster(grpc, { endpoints, probeKey: "bench/" }, nodeSystem);
  const io = { signal: new AbortController().signal };
  const lease = 4_711;
  await client.grantLease(lease, 600, io);
  const key = "bare/key";
  const put = { put: { key, value: "x".repeat(150), lease } };
  return {
    async cycle() {
      await client.txn({ compare: [{ key, target: 1, createRevision: 0 }], success: [put] }, io);
      await client.txn({ success: [{ delete: { key } }] }, io);
    },
    close: () => client.close(),
  };
}

/** Small batches in turn, so that whatever disturbs the machine disturbs both. */
async function measureUncontended(cluster: EtcdCluster): Promise<object> {
  const bare = await bareTransactions(cluster);
  const locks = createLocks(cluster.url);
  const ours = async (): Promise<void> => void (await (await locks.acquire("alone")).release());
  const samples = { bare: [] as number[], ours: [] as number[] };
  await timed(PER_BATCH, () => bare.cycle());
  await timed(PER_BATCH, ours);
  for (let i = 0; i < BATCHES; i += 1) {
    samples.bare.push(await timed(PER_BATCH, () => bare.cycle()));
    samples.ours.push(await timed(PER_BATCH, ours));
  }
  bare.close();
  await locks.close();
  const [p50Bare, p50Ours] = [quantile(samples.bare, 0.5), quantile(samples.ours, 0.5)];
  const figures = {
    aim: "ratio at most 1.2",
    bareTwoTransactionsMs: round(p50Bare),
    acquireReleaseMs: round(p50Ours),
    ratio: round(p50Ours / p50Bare),
    quickestTenthRatio: round(quantile(samples.ours, 0.1) / quantile(samples.bare, 0.1)),
  };
  console.log("uncontended acquire + release", cluster.members.length, figures);
  return figures;
}

function gapsOf(results: readonly (HandOffResult | CrowdResult)[]): number[] {
  const all = results
    .flatMap((result, process) =>
      result.sections.map(([fence, got, let_]) => ({ fence: BigInt(fence), got, let_, process })),
    )
    .sort((a, b) => (a.fence < b.fence ? -1 : 1));
  return all.flatMap((after, i) => {
    const before = all[i - 1];
    return before === undefined || before.process === after.process ? [] : [after.got - before.let_];
  });
}

async function measureHandOff(cluster: EtcdCluster): Promise<object> {
  const setting = { url: cluster.url, seconds: SECONDS };
  const gaps = gapsOf(await together<HandOffResult>("hand-off.ts", [setting, setting]));
  const figures = {
    handOffs: gaps.length,
    p50Ms: round(quantile(gaps, 0.5)),
    p99Ms: round(quantile(gaps, 0.99)),
  };
  console.log("hand-off between two processes", cluster.members.length, figures);
  return figures;
}

/** 1,000 tasks in 10 processes wait for one key: who is told of a release, and what it costs the servers. */
async function measureCrowd(cluster: EtcdCluster): Promise<object> {
  const [processes, tasks, seconds, holdMs] = [10, 100, 6, 40];
  const holder = createLocks(cluster.url);
  const lease = await holder.acquire("crowd", { ttl: "1m" });
  const setting = { url: cluster.url, key: "crowd", tasks, holdMs, seconds };
  const workers = Array.from({ length: processes }, () => startWorker<CrowdResult>("etcd-crowd.ts", setting));
  await Promise.all(workers.map((worker) => worker.ready));
  await inLine(holder, "crowd", processes);
  const before = await messages(cluster);
  for (const worker of workers) worker.go();
  await lease.release();
  const results = await Promise.all(workers.map((worker) => worker.result));
  const after = await messages(cluster);
  await holder.close();
  const grants = results.reduce((sum, { sections }) => sum + sections.length, 0);
  const gaps = gapsOf(results);
  const per = (name: string): number => round(((after[name] ?? 0) - (before[name] ?? 0)) / grants);
  const figures = {
    processes,
    tasks: processes * tasks,
    grants,
    handOffP50Ms: round(quantile(gaps, 0.5)),
    perHandOff: Object.fromEntries(Object.keys(after).map((name) => [name, per(name)])),
  };
  console.log("a crowd", figures);
  return figures;
}

async function inLine(locks: Locks, key: string, count: number): Promise<void> {
  while (((await locks.inspect(key))?.waiters?.length ?? 0) < count)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

/** What clients and servers have sent each other, by call, over all members. */
async function messages(cluster: EtcdCluster): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { endpoint } of cluster.members) {
    const text = await (await fetch(`http://${endpoint}/metrics`)).text();
    const line = /^grpc_server_msg_(sent|received)_total\{grpc_method="(\w+)",.*\} (\S+)$/gm;
    for (const [, way, method, value] of text.matchAll(line)) {
      if (!["Txn", "Range", "Watch", "LeaseKeepAlive"].includes(method ?? "")) continue;
      const name = `${method}${way === "sent" ? "Answers" : "Requests"}`;
      sums[name] = (sums[name] ?? 0) + Number(value);
    }
    const deletes = /^etcd_debugging_mvcc_events_total (\S+)$/m.exec(text)?.[1];
    sums["watchEvents"] = (sums["watchEvents"] ?? 0) + Number(deletes ?? 0);
  }
  return sums;
}

interface Contest {
  readonly library: string;
  readonly processes: number;
  readonly tasks: number;
  readonly handoff?: number;
}

async function measureHotKey(cluster: EtcdCluster): Promise<object> {
  const contests: readonly Contest[] = [
    { library: "holdfast", processes: 2, tasks: 5 },
    { library: "holdfast", processes: 2, tasks: 5, handoff: 0 },
    { library: "etcd3", processes: 2, tasks: 5 },
  ];
  const figures: object[] = [];
  for (const sectionMs of [0, 1]) {
    for (const contest of contests) {
      const runs: { rate: number; jain: number; longest: number }[] = [];
      for (let i = 0; i < RUNS; i += 1) runs.push(await contend(cluster, `hot-${i}`, contest, sectionMs));
      const { median: middle, low, high } = median(runs.map(({ rate }) => rate));
      const fair = quantile(
        runs.map((one) => one.jain),
        0.5,
      );
      const line = {
        ...contest,
        sectionMs,
        sectionsPerSecond: { median: round(middle), low: round(low), high: round(high) },
        jain: round(fair),
        longestWaitMs: round(Math.max(...runs.map(({ longest }) => longest))),
      };
      console.log("hot key", cluster.members.length, line);
      figures.push(line);
    }
  }
  return figures;
}

async function contend(
  cluster: EtcdCluster,
  key: string,
  { processes, ...rest }: Contest,
  sectionMs: number,
): Promise<{ rate: number; jain: number; longest: number }> {
  const setting = { ...rest, url: cluster.url, key, sectionMs, seconds: SECONDS };
  const settings = Array.from({ length: processes }, () => setting);
  const results = await together<EtcdHotKeyResult>("etcd-hot-key.ts", settings);
  const served = results.flatMap((result) => result.served);
  return {
    rate: served.reduce((a, b) => a + b, 0) / SECONDS,
    jain: jain(served),
    longest: Math.max(...results.map((result) => result.longestWaitMs)),
  };
}

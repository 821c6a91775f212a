// Leaders that are killed, on every store: how long until the next one leads, beside what the store declares. The suite of every
// store holds 100 terms against "never two leaders"; here every term is checked to be newer than the last.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kinds, type ServerKind } from "../scripts/servers/kinds.ts";
import { startRedis } from "../scripts/servers/redis.ts";
import { defaultGraceMs } from "../src/core/lease/validity-window.ts";
import { createLocks } from "../src/index.ts";
import { Child } from "../src/testing/child-process.ts";
import { monoMs } from "./lib/worker.ts";

const KILLS = 5;
const TTL_MS = 1_000;
/** What a poll, two wake-ups and a loaded machine may add to the store's own bound. */
const ON_TOP_MS = 250;

interface Place {
  readonly name: string;
  start(): Promise<{ readonly url: string; stop(): Promise<void> }>;
}

const served = (name: string, kind: string, query = ""): Place => ({
  name,
  async start() {
    const server = await (kinds[kind] as ServerKind).start();
    return { url: `${server.url}${query}`, stop: () => server.stop() };
  },
});

const PLACES: readonly Place[] = [
  {
    name: "local",
    start() {
      const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
      const stop = (): Promise<void> => Promise.resolve(rmSync(dir, { recursive: true, force: true }));
      return Promise.resolve({ url: `local:${dir}`, stop });
    },
  },
  served("redis", "redis"),
  served("redis-sentinel", "sentinel"),
  served("redis-cluster", "cluster"),
  {
    name: "redlock",
    async start() {
      const nodes = await Promise.all([1, 2, 3, 4, 5].map(() => startRedis({ own: true })));
      const hosts = nodes.map(({ url }) => new URL(url).host).join(",");
      return {
        // A node that is new sits out for the longest ttl.
        url: `redlock://${hosts}?maxTtl=${TTL_MS * 2}ms`,
        stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
      };
    },
  },
  served("postgres", "postgres"),
  served("postgres-advisory", "postgres", "?mode=advisory"),
  served("mysql", "mariadb"),
  served("mysql-row", "mariadb", "?mode=row"),
  served("etcd", "etcd"),
  served("zookeeper", "zookeeper"),
];

export async function run(): Promise<object> {
  const figures: object[] = [];
  for (const place of PLACES) {
    const server = await place.start();
    try {
      const figure = { store: place.name, ...(await takeovers(server.url)) };
      console.log(JSON.stringify(figure));
      figures.push(figure);
    } finally {
      await server.stop();
    }
  }
  return { kills: KILLS, ttlMs: TTL_MS, figures };
}

async function takeovers(url: string): Promise<object> {
  const bound = await boundOf(url);
  const tookMs: number[] = [];
  let [leader, fence] = [candidate(url), 0n];
  fence = BigInt((await campaign(leader)).fence);
  let next = candidate(url);
  try {
    for (let kill = 0; kill < KILLS; kill += 1) {
      const elected = campaign(next);
      await waits(url);
      const atMs = monoMs();
      const dead = leader.kill();
      const term = BigInt((await elected).fence);
      tookMs.push(Math.round(monoMs() - atMs));
      await dead;
      if (term <= fence) throw new Error(`the term ${term} came after ${fence}`);
      fence = term;
      [leader, next] = [next, candidate(url)];
    }
  } finally {
    await Promise.all([leader.kill(), next.kill()]);
  }
  tookMs.sort((a, b) => a - b);
  const worstMs = tookMs.at(-1) as number;
  return {
    ...bound,
    medianMs: tookMs[tookMs.length >> 1],
    worstMs,
    kept: worstMs <= bound.boundMs + ON_TOP_MS,
  };
}

function candidate(url: string): Child {
  return new Child({ store: { url }, namespace: "bench", label: "candidate" });
}

function campaign(child: Child): Promise<{ readonly fence: string }> {
  return child.call("elect", { name: "leader", options: { ttl: TTL_MS } });
}

/** Until somebody is seen in line behind the leader, or for long enough where a store shows no line. */
async function waits(url: string): Promise<void> {
  const locks = createLocks(url, { namespace: "bench" });
  const endMs = monoMs() + 2_000;
  while (monoMs() < endMs && ((await locks.inspect("leader"))?.waiters?.length ?? 0) === 0)
    await new Promise((resolve) => setTimeout(resolve, 20));
  await locks.close();
}

/** When a dead leader's key is free at the latest, and how soon a waiter sees that. */
async function boundOf(url: string): Promise<{ readonly declared: string; readonly boundMs: number }> {
  const locks = createLocks(url, { namespace: "bench" });
  await locks.inspect("leader");
  const { freeAfterCrashMs, freeLateMs = 0, claimMs, wakes, pollMs } = locks.guarantees;
  const graceMs = defaultGraceMs(TTL_MS);
  await locks.close();
  const freeMs = (freeAfterCrashMs === "lease" ? TTL_MS + graceMs : freeAfterCrashMs) + freeLateMs;
  const noticeMs = wakes === "block" ? 0 : Math.min(claimMs, TTL_MS, pollMs);
  const declared = `free after ${freeAfterCrashMs === "lease" ? "ttl + grace" : `${freeAfterCrashMs} ms`}${freeLateMs > 0 ? ` + ${freeLateMs} ms` : ""}, seen within ${noticeMs} ms`;
  return { declared, boundMs: freeMs + noticeMs };
}

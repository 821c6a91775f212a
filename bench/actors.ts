// Circles on every store; false alarms, readers and writers, and permits on local and Redis: what actors of several processes see.
// `npm run bench -- actors` takes about four minutes; `ALARM_SECONDS=300` looks for false alarms for longer.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { Semaphore } from "redis-semaphore";
import { kinds, type ServerKind } from "../scripts/servers/kinds.ts";
import { createLocks } from "../src/index.ts";
import { Child } from "../src/testing/child-process.ts";
import { jain, round } from "./lib/stats.ts";
import { monoMs } from "./lib/worker.ts";
import { together } from "./lib/workers.ts";

const RINGS = 20;
const PERMITS = 10;
const PERMIT_SECONDS = 5;
const ALARM_SECONDS = Number(process.env["ALARM_SECONDS"] ?? 30);

interface Unrelated {
  readonly sections: number;
  readonly longWaits: number;
  readonly alarms: number;
  /** Not had within a minute: the load is heavier than the keys can bear. */
  readonly timeouts: number;
  /** Anything else, in words. */
  readonly others: readonly string[];
}

/** Stores on a server, by the name under which scripts/servers knows it. */
const SERVERS = ["redis", "postgres", "mariadb", "etcd", "zookeeper"] as const;

export async function run(): Promise<object> {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const figures: Record<string, object> = { local: await busy(`local:${dir}`) };
  console.log("local", JSON.stringify(figures["local"]));
  let alarms: object = {};
  for (const name of SERVERS) {
    const server = await (kinds[name] as ServerKind).start();
    try {
      figures[name] =
        name === "redis"
          ? { ...(await busy(server.url)), permitsByRedisSemaphore: await peersPermits(server.url) }
          : { ring: await rings(server.url) };
      console.log(name, JSON.stringify(figures[name]));
      if (name !== "redis") continue;
      const [local, redis] = await Promise.all([unrelated(`local:${dir}`), unrelated(server.url)]);
      alarms = { seconds: ALARM_SECONDS, local, redis };
      console.log("no circle, no alarm", JSON.stringify(alarms));
    } finally {
      await server.stop();
    }
  }
  rmSync(dir, { recursive: true, force: true });
  return { figures, unrelated: alarms };
}

async function busy(url: string): Promise<object> {
  return { ring: await rings(url), readersAndWriters: await readers(url), permits: await permits(url) };
}

/** Three processes in a ring over three keys: ms from the last wait to the refusal of the victim. */
async function rings(url: string): Promise<object> {
  const children = [0, 1, 2].map(
    (i) => new Child({ store: { url }, namespace: "bench", label: `process ${i}` }),
  );
  const took: number[] = [];
  let victims = 0;
  try {
    for (const child of children) await warm(child);
    for (let turn = 0; turn < RINGS; turn += 1) {
      const key = (i: number): string => `ring-${turn}-${i % 3}`;
      await Promise.all(children.map((child, i) => child.call("acquire", { as: "first", key: key(i) })));
      const sinceMs = monoMs();
      await Promise.all(
        children.map(async (child, i) => {
          const wants = { as: "second", within: "first", key: key(i + 1), options: { wait: 20_000 } };
          const ok = await child.call("acquire", wants).then(
            () => true,
            (error: { code?: string }) => error.code !== "ERR_LOCK_DEADLOCK",
          );
          if (!ok) {
            victims += 1;
            took.push(Math.round(monoMs() - sinceMs));
          } else await child.call("release", { as: "second" });
          await child.call("release", { as: "first" });
        }),
      );
    }
  } finally {
    await Promise.all(children.map((child) => child.kill()));
  }
  took.sort((a, b) => a - b);
  return { rings: RINGS, victims, medianMs: took[took.length >> 1], worstMs: took.at(-1), all: took };
}

/** One after the other, and again: loading a client takes long on a busy machine. */
async function warm(child: Child): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await child.call("acquire", { as: "warm", key: "warm" });
      await child.call("release", { as: "warm" });
      return;
    } catch (error) {
      if (tries === 10) throw error;
    }
  }
}

/** 50 tasks, nine in ten read: how long writers and readers waited at worst. */
async function readers(url: string): Promise<object> {
  const locks = createLocks(url, { namespace: "bench", wait: 60_000 });
  await locks.inspect("book");
  const endMs = monoMs() + 10_000;
  const worst = { reader: 0, writer: 0 };
  const count = { reader: 0, writer: 0 };
  const task = async (): Promise<void> => {
    while (monoMs() < endMs) {
      const role = Math.random() < 0.9 ? "reader" : "writer";
      const askedMs = monoMs();
      await locks.using("book", { mode: role === "reader" ? "shared" : "exclusive" }, async () => {
        worst[role] = Math.max(worst[role], monoMs() - askedMs);
        count[role] += 1;
        await new Promise((resolve) => setTimeout(resolve, 2));
      });
    }
  };
  await Promise.all(Array.from({ length: 50 }, task));
  await locks.close();
  return {
    readers: count.reader,
    writers: count.writer,
    readerWorstMs: Math.round(worst.reader),
    writerWorstMs: Math.round(worst.writer),
  };
}

/** A semaphore of 10 with 100 tasks, each holding its permit for 1 ms. */
async function permits(url: string): Promise<object> {
  const locks = createLocks(url, { namespace: "bench", wait: 60_000 });
  await locks.inspect("desk");
  const ours = await crowd((section) => locks.using("desk", { limit: PERMITS }, section));
  await locks.close();
  return ours;
}

/** The same by redis-semaphore, with its own defaults but as many tries as it takes. */
async function peersPermits(url: string): Promise<object> {
  const client = new Redis(url);
  const figures = await crowd(async (section) => {
    const semaphore = new Semaphore(client, "desk", PERMITS, { acquireTimeout: 60_000 });
    await semaphore.acquire();
    try {
      await section();
    } finally {
      await semaphore.release();
    }
  });
  client.disconnect();
  return figures;
}

async function crowd(withPermit: (section: () => Promise<void>) => Promise<unknown>): Promise<object> {
  const endMs = monoMs() + PERMIT_SECONDS * 1_000;
  let [out, most, longestWaitMs] = [0, 0, 0];
  const served = await Promise.all(
    Array.from({ length: 100 }, async () => {
      let done = 0;
      while (monoMs() < endMs) {
        const askedMs = monoMs();
        await withPermit(async () => {
          longestWaitMs = Math.max(longestWaitMs, monoMs() - askedMs);
          out += 1;
          most = Math.max(most, out);
          await new Promise((resolve) => setTimeout(resolve, 1));
          out -= 1;
          done += 1;
        });
      }
      return done;
    }),
  );
  return {
    perSecond: Math.round(served.reduce((a, b) => a + b, 0) / PERMIT_SECONDS),
    jain: round(jain(served)),
    longestWaitMs: Math.round(longestWaitMs),
    mostAtOnce: most,
  };
}

/** Three processes of 50 tasks that hold one key and want another, always in one order: there is no circle to be found. */
async function unrelated(url: string): Promise<Unrelated> {
  const settings = { url, seconds: ALARM_SECONDS, tasks: 50, keys: 80 };
  const results = await together<Unrelated>("unrelated.ts", [settings, settings, settings]);
  const sum = (pick: (one: Unrelated) => number): number => results.reduce((all, one) => all + pick(one), 0);
  return {
    sections: sum((one) => one.sections),
    longWaits: sum((one) => one.longWaits),
    alarms: sum((one) => one.alarms),
    timeouts: sum((one) => one.timeouts),
    others: results.flatMap((one) => one.others),
  };
}

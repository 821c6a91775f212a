// The ZooKeeper store against the bare requests it is made of, and against kazoo's lock recipe, on the same servers in one run.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "holdfast";
import { unpackPackages } from "../scripts/servers/apt.ts";
import { cacheFolder } from "../scripts/servers/packages.ts";
import { type Ensemble, fourLetters, startEnsemble, startZooKeeper } from "../scripts/servers/zookeeper.ts";
import { create, Flags, OPEN_ACL, remove } from "../src/stores/zookeeper/wire/ops.ts";
import { Session } from "../src/stores/zookeeper/wire/session.ts";
import { nodeSystem } from "../src/system/node.ts";
import { jain, quantile, round } from "./lib/stats.ts";
import { together } from "./lib/workers.ts";
import type { HandOffResult } from "./workers/hand-off.ts";
import type { HotUrlResult } from "./workers/hot-url.ts";

const SECONDS = 3;
const CYCLES = 1_500;

interface KazooResult extends Omit<HotUrlResult, "grants"> {
  /** [granted at, release called at] */
  readonly sections: readonly (readonly [number, number])[];
  readonly cycles: readonly number[];
}

export async function run(): Promise<object> {
  const kazoo = await kazooPath();
  const one = await startZooKeeper({ own: true });
  try {
    const uncontendedOne = await measureUncontended(one.port, kazoo);
    const ensemble = await startEnsemble(3);
    try {
      const [member] = ensemble.members;
      const uncontendedThree = await measureUncontended(member?.port ?? 0, kazoo);
      const handOff = await measureHandOff(ensemble, kazoo);
      const hotKey = await measureHotKey(ensemble, kazoo);
      const crowd = await measureCrowd(ensemble);
      return { secondsPerRun: SECONDS, uncontendedOne, uncontendedThree, handOff, hotKey, crowd };
    } finally {
      await ensemble.stop();
    }
  } finally {
    await one.stop();
  }
}

/** One round of each in turn, so that whatever disturbs the machine disturbs both. */
async function measureUncontended(port: number, kazoo: string): Promise<object> {
  const url = `zookeeper://127.0.0.1:${port}`;
  const locks = createLocks(url);
  const quiet = { started: () => {}, expired: () => {}, event: () => {} };
  const servers = [{ host: "127.0.0.1", port }];
  const bare = new Session(
    { servers, timeoutMs: 10_000, tls: null, digest: null, system: nodeSystem },
    quiet,
  );
  const connection = await bare.ready(new AbortController().signal);
  const acl = OPEN_ACL;
  const data = Buffer.alloc(80, 1);
  await connection.send(create({ path: "/bare", data, acl, flags: Flags.container })).catch(() => {});
  const samples = { bare: [] as number[], ours: [] as number[] };
  for (let i = 0; i < CYCLES; i += 1) {
    samples.bare.push(
      await timed(async () => {
        const wish = { path: "/bare/x.", data, acl, flags: Flags.ephemeralSequential };
        const { path } = await connection.send(create(wish));
        await connection.send(remove(path));
      }),
    );
    samples.ours.push(
      await timed(async () => {
        await (await locks.acquire("alone")).release();
      }),
    );
  }
  await locks.close();
  await bare.close();
  const [peer] = await kazooTogether(kazoo, [port], 1, {
    key: "alone",
    tasks: 1,
    sectionMs: 0,
    seconds: SECONDS,
  });
  const warm = CYCLES / 5;
  const figures = {
    aim: "ratio at most 1.2",
    bareCreateDeleteP50Ms: round(quantile(samples.bare.slice(warm), 0.5)),
    acquireReleaseP50Ms: round(quantile(samples.ours.slice(warm), 0.5)),
    ratio: round(quantile(samples.ours.slice(warm), 0.5) / quantile(samples.bare.slice(warm), 0.5)),
    acquireReleaseP99Ms: round(quantile(samples.ours.slice(warm), 0.99)),
    kazooP50Ms: round(quantile(peer?.cycles ?? [], 0.5)),
  };
  console.log("uncontended acquire + release", figures);
  return figures;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - start) / 1e6;
}

async function measureHandOff(ensemble: Ensemble, kazoo: string): Promise<object> {
  const url = ensemble.url;
  const results = await together<HandOffResult>("hand-off.ts", [
    { url, seconds: SECONDS },
    { url, seconds: SECONDS },
  ]);
  const ours = gaps(results.map(({ sections }) => sections.map(([, got, let_]) => [got, let_] as const)));
  const ports = ensemble.members.map(({ port }) => port);
  const wish = { key: "hand-off", tasks: 1, sectionMs: 0, seconds: SECONDS, pauseMs: 1 };
  const theirs = gaps((await kazooTogether(kazoo, ports, 2, wish)).map(({ sections }) => sections));
  const figures = {
    handOffs: ours.length,
    p50Ms: round(quantile(ours, 0.5)),
    p99Ms: round(quantile(ours, 0.99)),
    kazoo: {
      handOffs: theirs.length,
      p50Ms: round(quantile(theirs, 0.5)),
      p99Ms: round(quantile(theirs, 0.99)),
    },
  };
  console.log("hand-off between two processes", figures);
  return figures;
}

/** From a release in one process to the next grant in another. All clocks are this machine's. */
function gaps(byProcess: readonly (readonly (readonly [number, number])[])[]): number[] {
  const all = byProcess
    .flatMap((sections, process) => sections.map(([got, let_]) => ({ got, let_, process })))
    .sort((a, b) => a.got - b.got);
  return all.slice(1).flatMap((after, i) => {
    const before = all[i];
    return before === undefined || before.process === after.process ? [] : after.got - before.let_;
  });
}

async function measureHotKey(ensemble: Ensemble, kazoo: string): Promise<object> {
  const contest = { url: ensemble.url, tasks: 25, seconds: SECONDS };
  const ports = ensemble.members.map(({ port }) => port);
  const figures: object[] = [];
  for (const sectionMs of [0, 1]) {
    for (const handoff of [undefined, 0]) {
      const wish = { ...contest, sectionMs, ...(handoff === undefined ? {} : { handoff }) };
      const line = figuresOf(await together<HotUrlResult>("hot-url.ts", [wish, wish]));
      figures.push({
        library: "holdfast",
        processes: 2,
        tasks: 25,
        ...(handoff === 0 ? { handoff } : {}),
        sectionMs,
        ...line,
      });
    }
    const wish = { key: `hot-${sectionMs}`, tasks: 25, sectionMs, seconds: SECONDS };
    const line = figuresOf(await kazooTogether(kazoo, ports, 2, wish));
    figures.push({ library: "kazoo", processes: 2, tasks: 25, sectionMs, ...line });
  }
  for (const figure of figures) console.log("hot key", figure);
  return figures;
}

function figuresOf(results: readonly Omit<HotUrlResult, "grants">[]): object {
  const served = results.flatMap((result) => result.served);
  return {
    sectionsPerSecond: round(served.reduce((a, b) => a + b, 0) / SECONDS),
    jain: round(jain(served)),
    longestWaitMs: round(Math.max(...results.map((result) => result.longestWaitMs))),
  };
}

/** A thousand waiters in ten processes: what one hand-off costs the servers, and how many are woken by one release. */
async function measureCrowd(ensemble: Ensemble): Promise<object> {
  const before = await counters(ensemble);
  const wish = { url: ensemble.url, tasks: 100, sectionMs: 0, seconds: SECONDS, handoff: 0 };
  const results = await together<HotUrlResult>(
    "hot-url.ts",
    Array.from({ length: 10 }, () => wish),
  );
  const after = await counters(ensemble);
  const grants = results.reduce((sum, one) => sum + one.grants, 0);
  const served = results.flatMap((one) => one.served).reduce((a, b) => a + b, 0);
  const per = (name: keyof typeof before): number => round((after[name] - before[name]) / grants);
  const figures = {
    processes: 10,
    tasks: 1_000,
    handOffs: grants,
    handOffsPerSecond: round(served / SECONDS),
    wokenPerRelease: per("woken"),
    messagesToServersPerHandOff: per("received"),
    messagesFromServersPerHandOff: per("sent"),
  };
  console.log("crowd", figures);
  return figures;
}

async function counters(ensemble: Ensemble): Promise<{ received: number; sent: number; woken: number }> {
  const said = await Promise.all(ensemble.members.map(({ port }) => fourLetters(port, "mntr")));
  const sum = (name: string): number =>
    said.reduce(
      (total, text) => total + Number(new RegExp(`^${name}\\s+(\\d+)`, "m").exec(text)?.[1] ?? 0),
      0,
    );
  return {
    received: sum("zk_packets_received"),
    sent: sum("zk_packets_sent"),
    woken: sum("zk_sum_node_deleted_watch_count"),
  };
}

/** Debian's python3-kazoo, unpacked beside the servers. */
async function kazooPath(): Promise<string> {
  const tree = join(cacheFolder(), "python3-kazoo");
  if (!existsSync(tree)) {
    const work = await mkdtemp(join(tmpdir(), "holdfast-kazoo-"));
    await unpackPackages(["python3-kazoo", "python3-six"], tree, work, { alone: true });
    await rm(work, { recursive: true, force: true });
  }
  return join(tree, "usr/lib/python3/dist-packages");
}

async function kazooTogether(
  path: string,
  ports: readonly number[],
  processes: number,
  wish: object,
): Promise<KazooResult[]> {
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
  const file = join(import.meta.dirname, "workers", "kazoo-worker.py");
  const workers = Array.from({ length: processes }, () => {
    const child = spawn("python3", [file, JSON.stringify({ hosts, ...wish })], {
      env: { ...process.env, PYTHONPATH: path },
      stdio: ["pipe", "pipe", "inherit"],
    });
    let text = "";
    const ready = new Promise<void>((resolve) => {
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (text.startsWith("ready\n")) resolve();
      });
    });
    const result = new Promise<KazooResult>((resolve, reject) => {
      child.on("close", (code) =>
        code === 0
          ? resolve(JSON.parse(text.slice("ready\n".length)) as KazooResult)
          : reject(new Error(`kazoo ended with ${code}`)),
      );
    });
    return { child, ready, result };
  });
  await Promise.all(workers.map(({ ready, result }) => Promise.race([ready, result])));
  for (const { child } of workers) child.stdin.end("go\n");
  return await Promise.all(workers.map(({ result }) => result));
}

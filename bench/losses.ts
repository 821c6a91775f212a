// What happens to a holder when things go wrong, ours and the peers' side by side on one Redis: when it is told of a loss, what it
// believes right after its event loop stood still, and what a lost reply and killed processes cost the others.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Proxy } from "../faults/proxy.ts";
import type { RunningServer } from "../scripts/servers/process.ts";
import { startRedis } from "../scripts/servers/redis.ts";
import { HOLDERS, type HolderName } from "./lib/holders.ts";
import { contender, type Library, PEERS } from "./lib/redlock-peers.ts";
import { quantile, round } from "./lib/stats.ts";
import { monoMs } from "./lib/worker.ts";
import type { HolderOrder, HolderWord } from "./workers/holder.ts";

const TTL_MS = 2_000;
const PATIENCE_MS = 10_000;
const WORKER = fileURLToPath(new URL("./workers/holder.ts", import.meta.url));

class Worker {
  readonly #process: ChildProcess;
  readonly #heard: HolderWord[] = [];
  #listeners: (() => void)[] = [];

  constructor(library: HolderName, url: string, key: string) {
    const setup = JSON.stringify({ library, url, key });
    this.#process = spawn(process.execPath, ["--import", "tsx", WORKER, setup], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    createInterface({ input: this.#process.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      this.#heard.push(JSON.parse(line) as HolderWord);
      for (const listener of this.#listeners.splice(0)) listener();
    });
  }

  tell(order: HolderOrder): void {
    this.#process.stdin?.write(`${JSON.stringify(order)}\n`);
  }

  /** The first word of that kind, or null when it does not come in time. */
  async hears(said: HolderWord["said"], ms = PATIENCE_MS): Promise<HolderWord | null> {
    const endMs = monoMs() + ms;
    for (;;) {
      const word = this.#heard.find((one) => one.said === said);
      if (word !== undefined) return word;
      const leftMs = endMs - monoMs();
      if (leftMs <= 0) return null;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#listeners.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  async takes(ttlMs = TTL_MS): Promise<this> {
    await this.hears("ready", 30_000);
    this.tell({ do: "take", ttlMs });
    if ((await this.hears("took", 30_000)) === null) throw new Error("a free key was not granted");
    return this;
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }
}

export async function run(): Promise<object> {
  const figures: object[] = [];
  for (const library of HOLDERS) {
    const figure = {
      library,
      frozenServer: await onRedis((server) => frozenServer(library, server)),
      blockedLoop: await onRedis((server) => blockedLoop(library, server)),
      lostReply: await onRedis((server) => lostReply(library, server)),
      killedHolder: await onRedis((server) => killedHolder(library, server)),
      killedWaiter: await onRedis((server) => killedWaiter(library, server)),
    };
    console.log(JSON.stringify(figure));
    figures.push(figure);
  }
  return { ttlMs: TTL_MS, figures, oneOfThreeFrozen: await oneOfThreeFrozen() };
}

async function onRedis<T>(work: (server: RunningServer) => Promise<T>): Promise<T> {
  const server = await startRedis({ own: true });
  try {
    return await work(server);
  } finally {
    server.kill("SIGCONT");
    await server.stop();
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The server stops answering for good. Whoever renewed last can believe for a ttl more, no longer. */
async function frozenServer(library: HolderName, server: RunningServer): Promise<object> {
  const holder = await new Worker(library, server.url, "frozen").takes();
  try {
    await pause(TTL_MS * 0.75);
    server.kill("SIGSTOP");
    const atMs = monoMs();
    const lost = await holder.hears("lost");
    return { toldAfterMs: lost === null ? null : Math.round(lost.atMs - atMs) };
  } finally {
    holder.kill();
  }
}

/** Its event loop stands still for longer than the ttl; meanwhile somebody else gets the key. */
async function blockedLoop(library: HolderName, server: RunningServer): Promise<object> {
  const [first, second] = [
    new Worker(library, server.url, "blocked"),
    new Worker(library, server.url, "blocked"),
  ];
  try {
    await first.takes();
    await second.hears("ready", 30_000);
    const waiting = second.takes();
    first.tell({ do: "block", ms: TTL_MS * 2.5 });
    const blocked = await first.hears("blocked", TTL_MS * 4);
    const lost = await first.hears("lost");
    await waiting;
    const toldAfterMs =
      lost === null || blocked === null ? null : Math.max(0, Math.round(lost.atMs - blocked.atMs));
    return { believedRightAfter: blocked?.held ?? null, toldAfterMs };
  } finally {
    first.kill();
    second.kill();
  }
}

/** The reply to an acquire never arrives; a moment later the network is well again. */
async function lostReply(library: HolderName, server: RunningServer): Promise<object> {
  const proxy = await Proxy.listen({ host: "127.0.0.1", port: server.port });
  const holder = new Worker(library, `redis://127.0.0.1:${proxy.port}`, "reply");
  try {
    await holder.hears("ready", 30_000);
    // Connected and warm.
    await pause(500);
    proxy.swallow("replies");
    holder.tell({ do: "take", ttlMs: TTL_MS });
    await pause(500);
    proxy.heal();
    const healedMs = monoMs();
    const took = await holder.hears("took");
    return { hadItAfterMs: took === null ? null : Math.round(took.atMs - healedMs) };
  } finally {
    holder.kill();
    await proxy.close();
  }
}

async function killedHolder(library: HolderName, server: RunningServer): Promise<object> {
  const [first, second] = [new Worker(library, server.url, "dead"), new Worker(library, server.url, "dead")];
  try {
    await first.takes();
    await second.hears("ready", 30_000);
    second.tell({ do: "take", ttlMs: TTL_MS });
    await pause(500);
    first.kill();
    const atMs = monoMs();
    const took = await second.hears("took");
    return { nextAfterMs: took === null ? null : Math.round(took.atMs - atMs) };
  } finally {
    first.kill();
    second.kill();
  }
}

/** The first of two who wait is killed; then the key is let go of. */
async function killedWaiter(library: HolderName, server: RunningServer): Promise<object> {
  const all = [1, 2, 3].map(() => new Worker(library, server.url, "line"));
  const [holder, first, second] = all as [Worker, Worker, Worker];
  try {
    await holder.takes();
    for (const waiter of [first, second]) {
      await waiter.hears("ready", 30_000);
      waiter.tell({ do: "take", ttlMs: TTL_MS });
      await pause(300);
    }
    first.kill();
    await pause(50);
    holder.tell({ do: "release" });
    const [released, took] = [await holder.hears("released"), await second.hears("took")];
    if (released === null || took === null) return { nextAfterMs: null };
    return { nextAfterMs: Math.round(Math.max(0, took.atMs - released.atMs)) };
  } finally {
    for (const worker of all) worker.kill();
  }
}

/** Of three masters one is frozen: what an acquire costs. */
async function oneOfThreeFrozen(): Promise<object[]> {
  const figures: object[] = [];
  for (const library of ["holdfast", ...PEERS] as const) {
    const servers = await Promise.all([1, 2, 3].map(() => startRedis({ own: true })));
    try {
      const urls = servers.map(({ url }) => url);
      const one = await contender(library as Library, urls);
      const healthyMs = await p50(one.take, 40);
      servers[2]?.kill("SIGSTOP");
      const frozenMs = await p50(one.take, 10);
      const figure = { library, healthyMs, frozenMs };
      console.log("one of three frozen", JSON.stringify(figure));
      figures.push(figure);
      servers[2]?.kill("SIGCONT");
      await one.end();
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  }
  return figures;
}

/** Of acquire and release; null when one of them does not come back. */
async function p50(
  take: (key: string) => Promise<() => Promise<unknown>>,
  times: number,
): Promise<number | null> {
  const took: number[] = [];
  for (let i = 0; i < times; i += 1) {
    const sinceMs = monoMs();
    const done = take(`frozen-${i}`)
      .then((release) => release())
      .then(
        () => true,
        () => true,
      );
    const timer = pause(PATIENCE_MS).then(() => false);
    if (!(await Promise.race([done, timer]))) return null;
    took.push(monoMs() - sinceMs);
  }
  return round(quantile(took, 0.5));
}

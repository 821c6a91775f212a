// Cost against n on one MariaDB: n waiters of one key (idle cost and hand-off), readers and permits beside n
// others, new keys at a steady rate until their rows are cleaned away, and a hot key beside an open snapshot.
// All requests are those of one opened store, which has one pool and one session that is woken.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import type { Io, OpenStore, Request } from "../src/core/store.ts";
import { mysql } from "../src/stores/mysql/index.ts";
import { nodeSystem } from "../src/system/node.ts";
import { startMariadb } from "../scripts/servers/mariadb.ts";
import { quantile, round } from "./lib/stats.ts";

const WAITERS = [10, 100, 1_000];
const HOLDERS = [10, 1_000];
const IDLE_MS = 10_000;
const SAMPLES = 200;
const NEW_KEYS = Number(process.env["BENCH_KEYS"] ?? 200_000);
const PER_SECOND = 1_000;
const HOT_CYCLES = Number(process.env["BENCH_CYCLES"] ?? 20_000);
/** Of the clock of /proc. */
const TICKS_PER_SECOND = 100;

const io: Io = { timeoutMs: 30_000, signal: new AbortController().signal, sleep: (ms) => pause(ms) };

export async function run(): Promise<object> {
  // The connections of a store keep no process alive: core does, which is not used here.
  const awake = setInterval(() => {}, 60_000);
  const server = await startMariadb({ own: true });
  const store = await mysql({ url: server.url }).open({ namespace: "b", system: nodeSystem, allow: [] });
  const asking = await createConnection(server.url);
  const cpuMs = (): number => cpuMsOf(server.pid as number);
  try {
    const waiters: object[] = [];
    for (const n of WAITERS) waiters.push(await measureWaiters(store, asking, cpuMs, n));
    const readers = await measureHolders(store, { mode: "shared" });
    const permits = await measureHolders(store, { limit: 1_000_000 });
    const hotKey = await measureHotKey(store, await createConnection(server.url));
    const newKeys = await measureNewKeys(store, asking, cpuMs);
    const figures = { waiters, readers, permits, hotKey, newKeys };
    console.dir(figures, { depth: 4 });
    return figures;
  } finally {
    clearInterval(awake);
    asking.destroy();
    await store.close();
    await server.stop();
  }
}

/** n requests wait for one key; then the key goes through all of them. */
async function measureWaiters(
  store: OpenStore,
  asking: Connection,
  cpuMs: () => number,
  n: number,
): Promise<object> {
  const holder = request(`waiters-${n}`, { ttlMs: 300_000 });
  const fence = await granted(store, holder);
  const order: number[] = [];
  const done: Promise<void>[] = [];
  for (let at = 0; at < n; at += 1) {
    const one = request(holder.keys[0] as string);
    const first = await store.attempt(one, io);
    if (!("busy" in first)) throw new Error("the key is free");
    done.push(waitAndRelease(store, one).then(() => void order.push(at)));
  }
  await pause(2_000);
  const [cpuBefore, statements] = [cpuMs(), await questions(asking)];
  await pause(IDLE_MS);
  const idle = {
    serverPercent: round(((cpuMs() - cpuBefore) / IDLE_MS) * 100),
    statementsPerSecond: round(((await questions(asking)) - statements - 1) / (IDLE_MS / 1_000)),
  };
  const startMs = performance.now();
  await store.release(holder, null, { lastFences: [fence] }, io);
  await Promise.all(done);
  const msPerHandOff = round((performance.now() - startMs) / n);
  const figures = { n, ...idle, msPerHandOff, inOrder: order.every((at, i) => at === i) };
  console.log("waiters", figures);
  return figures;
}

async function waitAndRelease(store: OpenStore, one: Request): Promise<void> {
  let wake = (): void => {};
  const off = await store.subscribe?.(one, () => wake());
  for (let seq = 2; ; seq += 1) {
    const answer = await store.attempt({ ...one, seq }, io);
    if ("granted" in answer) {
      off?.();
      await store.release(one, null, { lastFences: answer.granted.fences }, io);
      return;
    }
    const { againMs } = (answer as { busy: { againMs: number } }).busy;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, againMs);
      wake = () => (clearTimeout(timer), resolve());
    });
  }
}

/** One more reader or permit beside n others. */
async function measureHolders(store: OpenStore, wish: Partial<Request>): Promise<object[]> {
  const all: object[] = [];
  const key = `holders-${wish.mode ?? "permits"}`;
  let held = 0;
  for (const n of HOLDERS) {
    for (; held < n; held += 1) await granted(store, request(key, { ...wish, ttlMs: 600_000 }));
    const [acquires, releases]: [number[], number[]] = [[], []];
    for (let i = 0; i < SAMPLES; i += 1) {
      const one = request(key, wish);
      const startMs = performance.now();
      const fence = await granted(store, one);
      acquires.push(performance.now() - startMs);
      await store.release(one, null, { lastFences: [fence] }, io);
      releases.push(performance.now() - startMs - (acquires.at(-1) as number));
    }
    const figures = {
      n,
      acquireMs: round(quantile(acquires, 0.5)),
      releaseMs: round(quantile(releases, 0.5)),
    };
    console.log(key, figures);
    all.push(figures);
  }
  return all;
}

/** Milliseconds per cycle of every tenth of the cycles, while a transaction elsewhere keeps its snapshot. */
async function measureHotKey(store: OpenStore, elsewhere: Connection): Promise<object> {
  await elsewhere.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
  await elsewhere.query("START TRANSACTION WITH CONSISTENT SNAPSHOT");
  const msPerCycle: number[] = [];
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const startMs = performance.now();
    for (let i = 0; i < HOT_CYCLES / 10; i += 1) await cycle(store, "hot");
    msPerCycle.push(round(performance.now() - startMs) / (HOT_CYCLES / 10));
  }
  elsewhere.destroy();
  console.log("hot key beside a snapshot", msPerCycle.map((ms) => round(ms)).join(" "));
  return { cycles: HOT_CYCLES, msPerCycle };
}

async function measureNewKeys(store: OpenStore, asking: Connection, cpuMs: () => number): Promise<object> {
  const [startMs, cpuBefore] = [performance.now(), cpuMs()];
  const busy = new Set<Promise<void>>();
  for (let i = 0; i < NEW_KEYS; i += 1) {
    const behindMs = (i / PER_SECOND) * 1_000 - (performance.now() - startMs);
    if (behindMs > 1) await pause(behindMs);
    const one: Promise<void> = cycle(store, `new:${i}`).then(() => void busy.delete(one));
    busy.add(one);
    if (busy.size > 200) await Promise.race(busy);
  }
  await Promise.all(busy);
  const seconds = (performance.now() - startMs) / 1_000;
  const grownPercent = round(((cpuMs() - cpuBefore) / seconds / 1_000) * 100);
  const rows = await count(asking);
  await asking.query("UPDATE holdfast_locks SET over_us = 1");
  const [cleanStartMs, cleanCpu] = [performance.now(), cpuMs()];
  for (let cleaned = 1; cleaned > 0;) {
    const [answer] = await asking.query<RowDataPacket[][]>("CALL holdfast_clean_1()");
    cleaned = Number(answer[0]?.[0]?.["cleaned"]);
  }
  const figures = {
    keys: NEW_KEYS,
    perSecond: round(NEW_KEYS / seconds),
    serverPercent: grownPercent,
    rows,
    rowsAfterCleaning: await count(asking),
    cleaningSeconds: round((performance.now() - cleanStartMs) / 1_000),
    cleaningCpuSeconds: round((cpuMs() - cleanCpu) / 1_000),
  };
  console.log("new keys", figures);
  return figures;
}

async function cycle(store: OpenStore, key: string): Promise<void> {
  const one = request(key);
  const fence = await granted(store, one);
  await store.release(one, null, { lastFences: [fence] }, io);
}

async function granted(store: OpenStore, one: Request): Promise<bigint> {
  const answer = await store.attempt(one, io);
  if (!("granted" in answer)) throw new Error(`${one.keys.join()} is busy`);
  return answer.granted.fences[0] as bigint;
}

function request(key: string, wish: Partial<Request> = {}): Request {
  const lock = { mode: "exclusive", permits: 1, limit: 1, queue: true } as const;
  const times = { seq: 1, ttlMs: 30_000, graceMs: 3_000, keepMs: 0, reservedFences: 0 };
  return {
    keys: [key],
    id: nodeSystem.randomId(),
    label: "bench",
    actor: "bench",
    ...lock,
    ...times,
    ...wish,
  };
}

async function count(asking: Connection): Promise<number> {
  const [rows] = await asking.query<RowDataPacket[]>("SELECT COUNT(*) AS n FROM holdfast_locks");
  return Number(rows[0]?.["n"]);
}

async function questions(asking: Connection): Promise<number> {
  const [rows] = await asking.query<RowDataPacket[]>("SHOW GLOBAL STATUS LIKE 'Questions'");
  return Number(rows[0]?.["Value"]);
}

/** User and system time of a process. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000;
}

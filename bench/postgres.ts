// The PostgreSQL store against the two bare statements that a lock table is made of, and against what people
// use today: an advisory loop written by hand, and @verrou/core, on the same server in one run; then many
// keys at once, one hot key, and crowds of waiters.

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "pg";
import { createLocks } from "holdfast";
import { startPostgres } from "../scripts/servers/postgres.ts";
import type { RunningServer } from "../scripts/servers/process.ts";
import type { AttemptAnswer, Io, Request } from "../src/core/store.ts";
import { postgres } from "../src/stores/postgres/index.ts";
import { nodeSystem } from "../src/system/node.ts";
import { jain, quantile, round } from "./lib/stats.ts";
import { together } from "./lib/workers.ts";
import { verrouOn } from "./lib/verrou.ts";
import type { HotUrlResult } from "./workers/hot-url.ts";

const CYCLES = 1_000;
const WARM = 100;
const SECONDS = 3;
const TASKS = 32;
const TURNS = 4;
const TURN_MS = 1_000;
/** Until waiters have joined and ask as rarely as they will. */
const SETTLE_MS = 12_000;
const IDLE_MS = 8_000;
const MS_PER_TICK = 10;
const io = (): Io => ({ timeoutMs: 60_000, signal: new AbortController().signal, sleep });
const PLAIN: Omit<Request, "keys" | "id" | "seq"> = {
  mode: "exclusive",
  permits: 1,
  limit: 1,
  ttlMs: 300_000,
  graceMs: 1_000,
  reservedFences: 10_000,
  keepMs: 0,
  label: "bench",
  actor: "bench",
  queue: true,
};
const LIBRARIES = ["holdfast, table", "holdfast, advisory", "pg_advisory_lock loop", "@verrou/core"] as const;
const TAKE =
  "INSERT INTO bare AS b VALUES ($1, $2, clock_timestamp() + $3 * interval '1 ms') " +
  "ON CONFLICT (k) DO UPDATE SET owner = excluded.owner, ends = excluded.ends " +
  "WHERE b.owner IS NULL OR b.ends <= clock_timestamp() RETURNING owner";
const LET_GO = "UPDATE bare SET owner = NULL WHERE k = $1 AND owner = $2";

export async function run(): Promise<object> {
  const server = await startPostgres({ own: true });
  const pool = new Pool({ connectionString: server.url });
  try {
    const uncontended = await measureUncontended(server.url, pool);
    const hotKey: Record<string, object> = {};
    for (const library of LIBRARIES) hotKey[library] = await measureHotKey(server.url, library, pool);
    const throughput = await measureThroughput(server.url);
    const waiting: Record<string, object> = {};
    for (const count of [10, 100, 1_000]) waiting[count] = await measureWaiting(server, count);
    return { cycles: CYCLES, secondsPerRun: SECONDS, uncontended, throughput, hotKey, waiting };
  } finally {
    await pool.end();
    await server.stop();
  }
}

/** One round of each in turn, so that whatever disturbs the machine disturbs all. */
async function measureUncontended(url: string, pool: Pool): Promise<object> {
  await pool.query("CREATE TABLE bare (k text PRIMARY KEY, owner text, ends timestamptz)");
  const [table, advisory] = [createLocks(url), createLocks(`${url}?mode=advisory`)];
  const verrou = await verrouOn("pg", url);
  const rounds: Readonly<Record<string, () => Promise<unknown>>> = {
    bare: async () => {
      await pool.query(TAKE, ["k", "me", 30_000]);
      await pool.query(LET_GO, ["k", "me"]);
    },
    "bare, prepared": () => bareCycle(pool, "k"),
    "advisory loop by hand": async () => {
      const client = await pool.connect();
      await client.query("SELECT pg_try_advisory_lock($1)", [42]);
      await client.query("SELECT pg_advisory_unlock($1)", [42]);
      client.release();
    },
    "@verrou/core": () => verrou.using("k", async () => {}),
    table: () => table.using("k", () => {}),
    advisory: () => advisory.using("k", () => {}),
  };
  const samples = Object.fromEntries(Object.keys(rounds).map((name) => [name, [] as number[]]));
  for (let cycle = 0; cycle < CYCLES + WARM; cycle += 1) {
    for (const [name, round_] of Object.entries(rounds)) {
      const before = performance.now();
      await round_();
      if (cycle >= WARM) samples[name]?.push(performance.now() - before);
    }
  }
  await table.close();
  await advisory.close();
  await verrou.close();
  const bareMs = quantile(samples["bare, prepared"] ?? [], 0.5);
  return Object.fromEntries(
    Object.entries(samples).map(([name, ms]) => {
      const p50 = quantile(ms, 0.5);
      const figures = { p50Ms: round(p50), p99Ms: round(quantile(ms, 0.99)), timesBare: round(p50 / bareMs) };
      console.log(`uncontended ${name}: ${JSON.stringify(figures)}`);
      return [name, figures];
    }),
  );
}

async function bareCycle(pool: Pool, key: string): Promise<void> {
  await pool.query({ name: "take", text: TAKE, values: [key, "me", 30_000] });
  await pool.query({ name: "let-go", text: LET_GO, values: [key, "me"] });
}

/** Two processes of 25 tasks, a section of a millisecond. */
async function measureHotKey(url: string, library: string, pool: Pool): Promise<object> {
  const before = await transactions(pool);
  const settings = { url, library, tasks: 25, sectionMs: 1, seconds: SECONDS };
  const results = await together<HotUrlResult>("hot-postgres.ts", [settings, settings]);
  const served = results.flatMap((result) => result.served);
  const sections = served.reduce((sum, one) => sum + one, 0);
  const grants = results.reduce((sum, { grants: one }) => sum + one, 0);
  const figures = {
    sectionsPerSecond: round(sections / SECONDS),
    longestWaitMs: round(Math.max(...results.map(({ longestWaitMs }) => longestWaitMs))),
    statementsPerSection: round(((await transactions(pool)) - before) / grants),
    fairness: round(jain(served)),
  };
  console.log(`hot key, ${library}: ${JSON.stringify(figures)}`);
  return figures;
}

/** Sections per second of tasks with keys of their own, in turns with two bare prepared statements. */
async function measureThroughput(url: string): Promise<object> {
  const [ours, theirs] = [
    new Pool({ connectionString: url, max: TASKS }),
    new Pool({ connectionString: url, max: TASKS }),
  ];
  const [own, given] = [createLocks(url), createLocks(postgres({ pool: ours }))];
  const rounds: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
    "bare, prepared": (key) => bareCycle(theirs, key),
    "a pool that was given": (key) => given.using(key, () => {}),
    "a pool of its own, of 6": (key) => own.using(key, () => {}),
  };
  const counts = Object.fromEntries(Object.keys(rounds).map((name) => [name, [] as number[]]));
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const [name, cycle] of Object.entries(rounds)) {
      const endMs = performance.now() + TURN_MS;
      let count = 0;
      const task = async (at: number): Promise<void> => {
        for (; performance.now() < endMs; count += 1) await cycle(`task:${at}`);
      };
      await Promise.all(Array.from({ length: TASKS }, (_none, at) => task(at)));
      if (turn > 0) counts[name]?.push((count * 1_000) / TURN_MS);
    }
  }
  await Promise.all([own.close(), given.close()]);
  await Promise.all([ours.end(), theirs.end()]);
  return Object.fromEntries(
    Object.entries(counts).map(([name, perSecond]) => {
      const figures = { sectionsPerSecond: Math.round(quantile(perSecond, 0.5)) };
      console.log(`${TASKS} tasks, ${name}: ${JSON.stringify(figures)}`);
      return [name, figures];
    }),
  );
}

/** What waiters cost, and how fast they are served. All share one pool and one listening session. */
async function measureWaiting(server: RunningServer, waiting: number): Promise<object> {
  const pool = new Pool({ connectionString: server.url, max: 6 });
  const store = await postgres({ pool }).open({ namespace: "crowd", system: nodeSystem, allow: [] });
  const requestOf = (id: string, seq: number): Request => ({ ...PLAIN, keys: [`crowd:${waiting}`], id, seq });
  const release = async (one: Request, answer: AttemptAnswer): Promise<void> => {
    if (!("granted" in answer)) throw new Error("the lock was not granted");
    await store.release(one, null, { lastFences: answer.granted.fences }, io());
  };
  const holder = requestOf("holder", 1);
  const held = await store.attempt(holder, io());
  const grantedMs: number[] = [];
  const wait = async (id: string): Promise<void> => {
    let wake = (): void => {};
    const unsubscribe = await store.subscribe?.(requestOf(id, 1), () => wake());
    for (let seq = 1; ; seq += 1) {
      const answer = await store.attempt(requestOf(id, seq), io());
      if ("granted" in answer) grantedMs.push(performance.now());
      if (!("busy" in answer)) {
        unsubscribe?.();
        return release(requestOf(id, seq), answer);
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, answer.busy.againMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const waits = Array.from({ length: waiting }, (_none, at) => wait(`waiter:${at}`));
  await sleep(SETTLE_MS);
  const before = cpuMs(server.pid as number);
  await sleep(IDLE_MS);
  const idleCpuPercent = round(((cpuMs(server.pid as number) - before) * 100) / IDLE_MS);
  await release(holder, held);
  await Promise.all(waits);
  const gaps = grantedMs.slice(1).map((ms, at) => ms - (grantedMs[at] as number));
  const figures = {
    idleCpuPercent,
    handOffP50Ms: round(quantile(gaps, 0.5)),
    handOffP99Ms: round(quantile(gaps, 0.99)),
  };
  console.log(`${waiting} waiting: ${JSON.stringify(figures)}`);
  await store.close();
  await pool.end();
  return figures;
}

/** Processor time of the server's processes. */
function cpuMs(serverPid: number): number {
  const statOf = (pid: string): string[] => {
    try {
      return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    } catch {
      return [];
    }
  };
  const times = readdirSync("/proc")
    .map(statOf)
    .filter((stat) => stat[1] === String(serverPid))
    .map((stat) => (Number(stat[11]) + Number(stat[12])) * MS_PER_TICK);
  return times.reduce((sum, ms) => sum + ms, 0);
}

/** One statement is one transaction. Statistics are told with some delay. */
async function transactions(pool: Pool): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  const text =
    "SELECT (xact_commit + xact_rollback)::text AS n FROM pg_stat_database " +
    "WHERE datname = current_database()";
  const { rows } = await pool.query<{ n: string }>(text);
  return Number(rows[0]?.n);
}

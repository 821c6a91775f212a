// The PostgreSQL store against the two bare statements that a lock table is made of, and against what people use today: an advisory loop
// written by hand, and @verrou/core, on the same server in one run; then one hot key, and a crowd of waiters.

import { Pool } from "pg";
import { createLocks } from "holdfast";
import { startPostgres } from "../scripts/servers/postgres.ts";
import { jain, quantile, round } from "./lib/stats.ts";
import { together } from "./lib/workers.ts";
import { verrouOn } from "./lib/verrou.ts";
import type { HotUrlResult } from "./workers/hot-url.ts";

const CYCLES = 1_000;
const WARM = 100;
const SECONDS = 3;
const CROWD = 1_000;
const CROWD_SECONDS = 4;
const LIBRARIES = ["holdfast, table", "holdfast, advisory", "pg_advisory_lock loop", "@verrou/core"] as const;
const TAKE =
  "INSERT INTO bare AS b VALUES ($1, $2, clock_timestamp() + $3 * interval '1 ms') ON CONFLICT (k) DO UPDATE SET owner = excluded.owner, ends = excluded.ends WHERE b.owner IS NULL OR b.ends <= clock_timestamp() RETURNING owner";
const LET_GO = "UPDATE bare SET owner = NULL WHERE k = $1 AND owner = $2";

export async function run(): Promise<object> {
  const server = await startPostgres({ own: true });
  const pool = new Pool({ connectionString: server.url });
  try {
    const uncontended = await measureUncontended(server.url, pool);
    const hotKey: Record<string, object> = {};
    for (const library of LIBRARIES) hotKey[library] = await measureHotKey(server.url, library, pool);
    const crowd = await measureCrowd(server.url, pool);
    return { cycles: CYCLES, secondsPerRun: SECONDS, uncontended, hotKey, crowd };
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
    "bare, prepared": async () => {
      await pool.query({ name: "take", text: TAKE, values: ["k", "me", 30_000] });
      await pool.query({ name: "let-go", text: LET_GO, values: ["k", "me"] });
    },
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
  const bareMs = quantile(samples["bare"] ?? [], 0.5);
  return Object.fromEntries(
    Object.entries(samples).map(([name, ms]) => {
      const p50 = quantile(ms, 0.5);
      const figures = { p50Ms: round(p50), p99Ms: round(quantile(ms, 0.99)), timesBare: round(p50 / bareMs) };
      console.log(`uncontended ${name}: ${JSON.stringify(figures)}`);
      return [name, figures];
    }),
  );
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

/** What the server has to do for many waiters of one process, and for a few processes. */
async function measureCrowd(url: string, pool: Pool): Promise<object> {
  const count = async (stores: number): Promise<number> => {
    const all = Array.from({ length: stores }, () => createLocks(url));
    const holder = createLocks(url);
    const lease = await holder.acquire("crowd");
    const stop = new AbortController();
    const waits = all.flatMap((locks) =>
      Array.from({ length: CROWD / stores }, () =>
        locks.acquire("crowd", { wait: "60s", signal: stop.signal }).catch(() => {}),
      ),
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const before = await transactions(pool);
    await new Promise((resolve) => setTimeout(resolve, CROWD_SECONDS * 1_000));
    const perSecond = ((await transactions(pool)) - before) / CROWD_SECONDS;
    stop.abort();
    await Promise.all(waits);
    await lease.release();
    await Promise.all([holder, ...all].map((locks) => locks.close()));
    return round(perSecond);
  };
  const figures = { ofOneProcess: await count(1), ofTwentyProcesses: await count(20) };
  console.log(`statements per second for ${CROWD} waiters: ${JSON.stringify(figures)}`);
  return figures;
}

/** One statement is one transaction. Statistics are told with some delay. */
async function transactions(pool: Pool): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  const text =
    "SELECT (xact_commit + xact_rollback)::text AS n FROM pg_stat_database WHERE datname = current_database()";
  const { rows } = await pool.query<{ n: string }>(text);
  return Number(rows[0]?.n);
}

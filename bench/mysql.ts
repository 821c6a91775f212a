// Both modes of the mysql store against the bare statements that they cannot do without, and against what people use today, on
// one MariaDB: a loop around GET_LOCK, and @verrou/core on the same database.

import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { createLocks, type Locks } from "holdfast";
import { startMariadb } from "../scripts/servers/mariadb.ts";
import type { RunningServer } from "../scripts/servers/process.ts";
import { quantile, round } from "./lib/stats.ts";
import { verrouOn } from "./lib/verrou.ts";
import { together } from "./lib/workers.ts";
import type { HotMysqlResult } from "./workers/hot-mysql.ts";

const BATCHES = 40;
const BATCH = 25;
const SECONDS = 4;
const LIBRARIES = ["holdfast, table", "holdfast, row", "GET_LOCK loop", "@verrou/core"] as const;

export async function run(): Promise<object> {
  const server = await startMariadb({ own: true });
  try {
    const uncontended = await measureUncontended(server);
    const waiters = await measureWaiters(server);
    const hotKey = await measureHotKey(server);
    return {
      server: "MariaDB 10.11 (Debian), what is committed is not flushed",
      uncontended,
      waiters,
      hotKey,
    };
  } finally {
    await server.stop();
  }
}

async function timed(count: number, cycle: () => Promise<unknown>): Promise<number> {
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i += 1) await cycle();
  return Number(process.hrtime.bigint() - start) / 1e3 / count;
}

/** Many small batches in turn, so that whatever disturbs the machine disturbs all; the quickest tenth of each is compared. */
async function measureUncontended({ url }: RunningServer): Promise<object> {
  const table = createLocks(url);
  const rows = createLocks(`${url}?mode=row`);
  const bare = await createConnection(url);
  await bare.query(
    "CREATE TABLE bare (id INT PRIMARY KEY, holder VARCHAR(32) NULL, fence BIGINT NOT NULL, ends BIGINT NOT NULL)",
  );
  await bare.query("INSERT INTO bare VALUES (1, NULL, 0, 0)");
  const peer = await verrouOn("mysql2", url);
  const samples = new Map<string, number[]>();
  const cases: Readonly<Record<string, () => Promise<unknown>>> = {
    bareTwoUpdates: async () => {
      await bare.execute(
        "UPDATE bare SET holder = ?, fence = LAST_INSERT_ID(fence + 1), ends = ? WHERE id = 1 AND holder IS NULL",
        ["me", 1],
      );
      await bare.execute("UPDATE bare SET holder = NULL WHERE id = 1 AND holder = ?", ["me"]);
    },
    bareRowLock: async () => {
      await bare.query("BEGIN");
      await bare.execute("SELECT 1 FROM bare WHERE id = ? FOR UPDATE", [1]);
      await bare.query("COMMIT");
    },
    getLock: async () => {
      await bare.execute("SELECT GET_LOCK(?, 0)", ["alone"]);
      await bare.execute("SELECT RELEASE_LOCK(?)", ["alone"]);
    },
    verrou: () => peer.using("alone", async () => {}),
    holdfastTable: async () => (await table.acquire("alone")).release(),
    holdfastRow: async () => (await rows.acquire("alone")).release(),
  };
  for (const cycle of Object.values(cases)) await timed(BATCH, cycle);
  for (let i = 0; i < BATCHES; i += 1) {
    for (const [name, cycle] of Object.entries(cases)) {
      samples.set(name, [...(samples.get(name) ?? []), await timed(BATCH, cycle)]);
    }
  }
  await Promise.all([table.close(), rows.close(), peer.close()]);
  bare.destroy();
  const quick = (name: string): number => quantile(samples.get(name) ?? [], 0.1);
  const figures = {
    aim: "ratio at most 1.3",
    us: Object.fromEntries(Object.keys(cases).map((name) => [name, round(quick(name))])),
    tableToVerrou: round(quick("holdfastTable") / quick("verrou")),
    tableToTwoUpdates: round(quick("holdfastTable") / quick("bareTwoUpdates")),
    rowToRowLock: round(quick("holdfastRow") / quick("bareRowLock")),
  };
  console.log("uncontended acquire + release", figures);
  return figures;
}

async function questions(asking: Connection): Promise<number> {
  const [rows] = await asking.query<RowDataPacket[]>("SHOW GLOBAL STATUS LIKE 'Questions'");
  return Number(rows[0]?.["Value"]);
}

/** What waiting costs the server: a thousand tasks of one process, and twenty opened stores with one waiter each. */
async function measureWaiters({ url }: RunningServer): Promise<object> {
  const asking = await createConnection(url);
  const figures: Record<string, object> = {};
  for (const mode of ["table", "row"]) {
    const at = `${url}?mode=${mode}`;
    for (const [name, opened, tasks] of [
      ["thousandTasksOfOneProcess", 1, 1_000],
      ["twentyOpenedStores", 20, 1],
    ] as const) {
      const holder = createLocks(at);
      const lease = await holder.acquire("crowded", { ttl: "1m" });
      const all = Array.from({ length: opened }, () => createLocks(at));
      const controller = new AbortController();
      const waits = all.flatMap((locks: Locks) =>
        Array.from({ length: tasks }, () =>
          locks.acquire("crowded", { wait: "1m", signal: controller.signal }).catch(() => {}),
        ),
      );
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      const before = await questions(asking);
      await new Promise((resolve) => setTimeout(resolve, 4_000));
      const perSecond = ((await questions(asking)) - before - 1) / 4;
      controller.abort();
      await Promise.all(waits);
      await lease.release();
      await Promise.all([holder, ...all].map((locks) => locks.close()));
      figures[`${mode}: ${name}`] = {
        statementsPerSecond: round(perSecond),
        perStore: round(perSecond / opened),
      };
    }
  }
  asking.destroy();
  console.log("what waiters cost", figures);
  return figures;
}

async function measureHotKey({ url }: RunningServer): Promise<object> {
  const asking = await createConnection(url);
  const figures: object[] = [];
  for (const library of LIBRARIES) {
    const before = await questions(asking);
    const settings = [0, 1].map(() => ({ url, library, tasks: 25, sectionMs: 1, seconds: SECONDS }));
    const results = await together<HotMysqlResult>("hot-mysql.ts", settings);
    const sections = results.reduce((sum, { served }) => sum + served, 0);
    const line = {
      library,
      sectionsPerSecond: round(sections / SECONDS),
      longestWaitMs: round(Math.max(...results.map(({ longestWaitMs }) => longestWaitMs))),
      statementsPerSection: round(((await questions(asking)) - before) / Math.max(1, sections)),
    };
    console.log("hot key, 2 processes of 25 tasks, 1 ms section", line);
    figures.push(line);
  }
  asking.destroy();
  return figures;
}

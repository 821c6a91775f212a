// Strangers on the tables of the locks: a transaction that holds their rows for longer than anybody may wait, and one that takes
// them in another order, so that somebody has to be the victim of a deadlock.

import { setTimeout as sleep } from "node:timers/promises";
import { type Connection, createConnection } from "mysql2/promise";
import { APP } from "../../scripts/servers/mariadb.ts";
import type { Trick } from "./target.ts";

type Say = (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

const TABLES = { table: "holdfast_locks", row: "holdfast_row_holder" } as const;
const MET_MS = 10_000;
const LOOK_EVERY_MS = 10;

/** The store lets its statements wait for two seconds: some strikes are shorter than that, some longer. */
export function lockWait(port: number, say: Say, mode: keyof typeof TABLES): Trick {
  let stranger: Connection | null = null;
  return {
    everyMs: [300, 1_000],
    forMs: [300, 3_500],
    async begin() {
      stranger = await connect(port);
      await stranger.query("BEGIN");
      await stranger.query(`SELECT 1 FROM ${TABLES[mode]} FOR UPDATE`);
      await met(say);
    },
    async end() {
      await stranger?.query("ROLLBACK");
      stranger?.destroy();
    },
  };
}

/** Somebody locks the same rows in another order, and holds them for a moment. */
export const deadlockVictim = (port: number): Trick => ({
  everyMs: [20, 100],
  forMs: [0, 0],
  begin: async () => {
    const connection = await connect(port);
    try {
      await connection.query("BEGIN");
      await connection.query("SELECT name FROM holdfast_locks ORDER BY name DESC FOR UPDATE");
      await connection.query("DO SLEEP(0.02)");
      await connection.query("ROLLBACK");
    } catch {
      // It was the victim itself.
    } finally {
      connection.destroy();
    }
  },
  end: () => Promise.resolve(),
});

/** Resolves when somebody waits for a row. */
async function met(say: Say): Promise<void> {
  const endMs = performance.now() + MET_MS;
  // Not from innodb_trx: whoever looks there often sees the same old picture every time.
  const waiting = async (): Promise<number> =>
    Number((await say("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"))[0]?.["Value"]);
  while ((await waiting()) === 0) {
    if (performance.now() > endMs) throw new Error(`nobody waited for a row within ${MET_MS} ms`);
    await sleep(LOOK_EVERY_MS);
  }
}

const connect = (port: number): Promise<Connection> => createConnection({ host: "127.0.0.1", port, ...APP });

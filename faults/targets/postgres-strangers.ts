// Strangers on the tables of the locks: a transaction that holds their rows for longer than the server lets anybody wait, and one
// that takes them in another order, so that somebody has to be the victim of a deadlock.

import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import type { Trick } from "./target.ts";

type Say = (text: string) => Promise<string>;

const TABLES = { table: ["lock"], advisory: ["fences", "sessions"] } as const;
/** Shorter than any of the strikes. */
const LOCK_TIMEOUT = "100ms";
const MET_MS = 10_000;
const LOOK_EVERY_MS = 10;
const BLOCKED =
  "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')";

/** Whoever has waited for `lock_timeout` is refused; the stranger goes on. */
export function lockWait(port: number, say: Say, mode: keyof typeof TABLES): Trick {
  let stranger: Client | null = null;
  return {
    everyMs: [300, 1_000],
    forMs: [300, 2_000],
    async begin() {
      await setting(say, "lock_timeout", LOCK_TIMEOUT);
      stranger = await connect(port);
      await stranger.query("BEGIN; SET LOCAL lock_timeout = 0");
      for (const table of TABLES[mode]) await stranger.query(`SELECT FROM holdfast_${table} FOR UPDATE`);
      await met(say);
    },
    async end() {
      await stranger?.query("ROLLBACK");
      await stranger?.end();
      await setting(say, "lock_timeout", "0");
    },
  };
}

/** The rows from the last to the first, one by one: who has one of them and wants a later one waits, and so does the stranger. */
export const deadlockVictim = (port: number, say: Say): Trick => ({
  everyMs: [20, 100],
  forMs: [0, 0],
  async begin() {
    await setting(say, "deadlock_timeout", "10ms");
    const stranger = await connect(port);
    try {
      await stranger.query(
        "SELECT pg_sleep(0.01) FROM (SELECT name FROM holdfast_lock ORDER BY name DESC FOR UPDATE) AS rows",
      );
    } catch {
      // It was the victim itself.
    } finally {
      await stranger.end();
    }
  },
  end: () => Promise.resolve(),
});

/** Resolves when somebody waits for a row. */
async function met(say: Say): Promise<void> {
  const endMs = performance.now() + MET_MS;
  while ((await say(BLOCKED)) === "0") {
    if (performance.now() > endMs) throw new Error(`nobody waited for a row within ${MET_MS} ms`);
    await sleep(LOOK_EVERY_MS);
  }
}

async function setting(say: Say, name: string, value: string): Promise<void> {
  await say(`ALTER SYSTEM SET ${name} = '${value}'`);
  await say("SELECT pg_reload_conf()");
}

async function connect(port: number): Promise<Client> {
  const client = new Client({ connectionString: `postgres://postgres@127.0.0.1:${port}/postgres` });
  // The call itself rejects.
  client.on("error", () => {});
  await client.connect();
  return client;
}

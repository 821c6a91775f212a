// guardRow on a real PostgreSQL, inside transactions that meet.

import type { Pool, PoolClient } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres } from "../../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { guardRow, type GuardRowOptions } from "../../../src/fence/index.ts";
import {
  createLocks,
  InvalidArgumentError,
  MissingRowError,
  StaleFenceError,
  UnsupportedError,
} from "../../../src/index.ts";
import { openPool } from "../../support/pg-pool.ts";

let server: RunningServer;
let pool: Pool;

beforeAll(async () => {
  server = await startPostgres();
  pool = openPool(server.url, { max: 10 });
  await pool.query(`DROP SCHEMA IF EXISTS "fe""nce" CASCADE`);
  await pool.query(`CREATE SCHEMA "fe""nce"`);
  await pool.query(`CREATE TABLE "fe""nce"."pho.nes" (id int PRIMARY KEY, fence bigint, state text)`);
  await pool.query(`CREATE TABLE IF NOT EXISTS guarded (id text PRIMARY KEY, fence bigint, state text)`);
  await pool.query(`CREATE TABLE IF NOT EXISTS guard_log (n bigserial, fence bigint)`);
  await pool.query(`TRUNCATE guarded, guard_log`);
});
afterAll(async () => {
  await pool.end();
  await server.stop();
});

async function transaction<T>(work: (tx: PoolClient) => Promise<T>, level = "READ COMMITTED"): Promise<T> {
  const tx = await pool.connect();
  try {
    await tx.query(`BEGIN ISOLATION LEVEL ${level}`);
    const result = await work(tx);
    await tx.query("COMMIT");
    return result;
  } catch (error) {
    await tx.query("ROLLBACK");
    throw error;
  } finally {
    tx.release();
  }
}

async function insert(id: string): Promise<string> {
  await pool.query("INSERT INTO guarded (id) VALUES ($1)", [id]);
  return id;
}

const guard = (options: Omit<GuardRowOptions, "table">): Promise<void> =>
  transaction((tx) => guardRow(tx, { table: "guarded", ...options }));

test("a row is claimed from NULL, equal and larger fences pass, an older one is refused (P4)", async () => {
  const id = await insert("a");
  await guard({ id, fence: 5n });
  await guard({ id, fence: 5n });
  await guard({ id, fence: 7n });
  await expect(guard({ id, fence: 6n, lock: "phone" })).rejects.toMatchObject({
    fence: 6n,
    seen: 7n,
    key: "phone",
  });
  await expect(guard({ id, fence: 6n })).rejects.toThrow(StaleFenceError);
  const large = 2n ** 62n;
  await guard({ id, fence: large + 1n });
  await expect(guard({ id, fence: large })).rejects.toMatchObject({ seen: large + 1n });
});

test("a missing row is an error of its own", async () => {
  await expect(guard({ id: "nobody", fence: 5n })).rejects.toThrow(MissingRowError);
});

test("leases are taken as they are, shared ones are refused, and so is a pool", async () => {
  const id = await insert("b");
  const locks = createLocks("memory:sql-row");
  await locks.using("b", (fence) => guard({ id, fence }));
  await locks.using("c", { limit: 2 }, async (fence) => {
    await expect(guard({ id, fence })).rejects.toThrow(UnsupportedError);
  });
  await locks.close();
  await expect(guardRow(pool, { table: "guarded", id, fence: 1n })).rejects.toThrow(/pool/);
  await expect(guardRow({}, { table: "guarded", id, fence: 1n })).rejects.toThrow(InvalidArgumentError);
});

test("names are quoted, whatever is in them", async () => {
  const table = ['fe"nce', "pho.nes"];
  await pool.query(`INSERT INTO "fe""nce"."pho.nes" VALUES (1, 3, 'x')`);
  await transaction((tx) => guardRow(tx, { table, id: 1, fence: 4n }));
  await expect(transaction((tx) => guardRow(tx, { table, id: 1, fence: 3n }))).rejects.toThrow(
    StaleFenceError,
  );
  const evil = 'guarded"; DROP TABLE guarded; --';
  await expect(transaction((tx) => guardRow(tx, { table: [evil], id: 1, fence: 4n }))).rejects.toThrow(
    /does not exist/,
  );
  for (const name of ["", "a\0b", 5]) {
    expect(() =>
      guardRow.sql("postgres", { table: "t", id: 1, fence: 1n, idColumn: name as string }),
    ).toThrow(InvalidArgumentError);
  }
  expect(guardRow.sql("mysql", { table: "a.b`c", id: 1, fence: 9n })).toEqual({
    text:
      "UPDATE `a`.`b``c` SET `fence` = CAST(? AS SIGNED) WHERE `id` = ? AND COALESCE(`fence`, 0) <= " +
      "CAST(? AS SIGNED)",
    values: ["9", 1, "9"],
  });
});

test("the statement for query builders affects one row or none", async () => {
  const id = await insert("d");
  const run = async (fence: bigint): Promise<number | null> => {
    const { text, values } = guardRow.sql("postgres", { table: "guarded", id, fence });
    return (await pool.query(text, [...values])).rowCount;
  };
  expect([await run(5n), await run(5n), await run(4n), await run(6n)]).toEqual([1, 1, 0, 1]);
});

test.each(["READ COMMITTED", "REPEATABLE READ"])(
  "an old holder whose transaction meets a later one's is refused when that has ended, at %s (P4)",
  async (level) => {
    const id = await insert(`meet ${level}`);
    let claimed = (): void => {};
    const first = new Promise<void>((resolve) => (claimed = resolve));
    const later = transaction(async (tx) => {
      await guardRow(tx, { table: "guarded", id, fence: 8n });
      claimed();
      const waiting = "SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted";
      const waits = async (): Promise<unknown> => (await pool.query<{ n: number }>(waiting)).rows[0]?.n;
      await expect.poll(waits, { timeout: 100_000 }).toBeGreaterThan(0);
      await tx.query("UPDATE guarded SET state = 'later' WHERE id = $1", [id]);
    });
    await first;
    const old = transaction(async (tx) => {
      await guardRow(tx, { table: "guarded", id, fence: 7n });
      await tx.query("UPDATE guarded SET state = 'old' WHERE id = $1", [id]);
    }, level);
    // At the stricter level the database itself refuses: the row has changed since its snapshot.
    await expect(old).rejects.toThrow(level === "READ COMMITTED" ? StaleFenceError : /could not serialize/);
    await later;
    expect((await pool.query("SELECT state FROM guarded WHERE id = $1", [id])).rows).toEqual([
      { state: "later" },
    ]);
  },
);

test("of many transactions at once none goes back (P4)", async () => {
  const id = await insert("crowd");
  let stale = 0;
  await Promise.all(
    Array.from({ length: 300 }, async (_none, i) => {
      const fence = BigInt(1 + ((i * 7_919) % 300));
      await transaction(async (tx) => {
        await guardRow(tx, { table: "guarded", id, fence });
        await tx.query("INSERT INTO guard_log (fence) VALUES ($1)", [String(fence)]);
      }).catch((error: unknown) => {
        expect(error).toBeInstanceOf(StaleFenceError);
        stale += 1;
      });
    }),
  );
  const { rows } = await pool.query("SELECT fence FROM guard_log ORDER BY n");
  const passed = rows.map((row: { fence: string }) => Number(row.fence));
  expect(passed).toEqual([...passed].sort((a, b) => a - b));
  expect(passed.at(-1)).toBe(300);
  expect(passed.length + stale).toBe(300);
  expect(stale).toBeGreaterThan(10);
});

// guardRow on a real MariaDB through mysql2, with promises and without, and with a connection that counts
// changed rows only.

import { createConnection as createPlain } from "mysql2";
import { type Connection, createConnection, createPool } from "mysql2/promise";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { guardRow, type GuardRowOptions, type Transaction } from "../../../src/fence/index.ts";
import { InvalidArgumentError, MissingRowError, StaleFenceError } from "../../../src/index.ts";

let server: RunningServer;
const open: { end(): unknown }[] = [];

async function connect(flags: readonly string[] = []): Promise<Connection> {
  const connection = await createConnection({ uri: server.url, flags: [...flags] });
  open.push(connection);
  return connection;
}

beforeAll(async () => {
  server = await startMariadb();
  const connection = await connect();
  await connection.query("DROP TABLE IF EXISTS guarded, guard_log");
  await connection.query(
    "CREATE TABLE guarded (id varchar(50) PRIMARY KEY, fence bigint, state varchar(50)) ENGINE=InnoDB",
  );
  await connection.query(
    "CREATE TABLE guard_log (n bigint AUTO_INCREMENT PRIMARY KEY, fence bigint) ENGINE=InnoDB",
  );
});
afterAll(async () => {
  for (const connection of open) await connection.end();
  await server.stop();
});

async function guard(tx: Transaction, options: Omit<GuardRowOptions, "table">): Promise<void> {
  const run = tx as Connection;
  await run.query("BEGIN");
  try {
    await guardRow(tx, { table: "guarded", ...options });
    await run.query("COMMIT");
  } catch (error) {
    await run.query("ROLLBACK");
    throw error;
  }
}

async function insert(id: string): Promise<string> {
  const connection = await connect();
  await connection.query("INSERT INTO guarded (id) VALUES (?)", [id]);
  return id;
}

test.each([
  ["found", []],
  ["changed", ["-FOUND_ROWS"]],
])(
  "where %s rows are counted: equal and larger fences pass, an older one is refused (P4)",
  async (name, flags) => {
    const id = await insert(name);
    const tx = await connect(flags);
    await guard(tx, { id, fence: 5n });
    await guard(tx, { id, fence: 5n });
    await guard(tx, { id, fence: 7n });
    await expect(guard(tx, { id, fence: 6n })).rejects.toMatchObject({ fence: 6n, seen: 7n });
    const large = 2n ** 62n;
    await guard(tx, { id, fence: large + 1n });
    await expect(guard(tx, { id, fence: large })).rejects.toMatchObject({ seen: large + 1n });
    await guard(tx, { id, fence: large + 1n });
    await guard(tx, { id, fence: large + 2n });
    await expect(guard(tx, { id: "nobody", fence: 1n })).rejects.toThrow(MissingRowError);
  },
);

test("a connection without promises is taken too, a pool is not", async () => {
  const id = await insert("plain");
  const plain = createPlain(server.url);
  open.push(plain.promise());
  await guardRow(plain, { table: "guarded", id, fence: 3n });
  await expect(guardRow(plain, { table: "guarded", id, fence: 2n })).rejects.toThrow(StaleFenceError);
  const pool = createPool(server.url);
  open.push(pool);
  await expect(guardRow(pool, { table: "guarded", id, fence: 3n })).rejects.toThrow(InvalidArgumentError);
});

test("an old holder whose snapshot was taken before a later claim is refused all the same (P4)", async () => {
  const id = await insert("snapshot");
  const [old, later] = [await connect(), await connect()];
  await old.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
  await old.query("BEGIN");
  await old.query("SELECT * FROM guarded");
  await guard(later, { id, fence: 8n });
  // MariaDB may say that the row has changed since the snapshot, or the guard that the fence is stale.
  await expect(guardRow(old, { table: "guarded", id, fence: 7n })).rejects.toThrow(
    /accepted fence 8|has changed/,
  );
  await old.query("ROLLBACK");
});

test("of many transactions at once none goes back (P4)", async () => {
  const id = await insert("crowd");
  const connections = await Promise.all(Array.from({ length: 8 }, () => connect()));
  let stale = 0;
  await Promise.all(
    connections.map(async (tx, at) => {
      for (let turn = 0; turn < 40; turn += 1) {
        const fence = BigInt(1 + (((turn * 8 + at) * 7_919) % 320));
        await tx.query("BEGIN");
        try {
          await guardRow(tx, { table: "guarded", id, fence });
          await tx.query("INSERT INTO guard_log (fence) VALUES (?)", [String(fence)]);
          await tx.query("COMMIT");
        } catch (error) {
          await tx.query("ROLLBACK");
          expect(error).toBeInstanceOf(StaleFenceError);
          stale += 1;
        }
      }
    }),
  );
  const [rows] = await (connections[0] as Connection).query("SELECT fence FROM guard_log ORDER BY n");
  const passed = (rows as { fence: number }[]).map((row) => Number(row.fence));
  expect(passed).toEqual([...passed].sort((a, b) => a - b));
  expect(passed.at(-1)).toBe(320);
  expect(passed.length + stale).toBe(320);
  expect(stale).toBeGreaterThan(10);
});

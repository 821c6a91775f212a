// Locks in a transaction of the caller's: they end with it, and lock and data are one. A row that InnoDB has
// locked stays locked until the transaction ends, so an attempt in vain must lock nothing.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPool as createCallbackPool } from "mysql2";
import { createPool, type Pool, type PoolConnection, type RowDataPacket } from "mysql2/promise";
import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks, type Locks, type TransactionLease } from "../../../src/index.ts";
import { io } from "./fixture.ts";

let server: RunningServer;
let pool: Pool;
const opened: Locks[] = [];

const open = (mode: string): Locks => {
  const locks = createLocks(`${server.url}?mode=${mode}`);
  opened.push(locks);
  return locks;
};

/** With a transaction in it. */
async function begun(how = "START TRANSACTION"): Promise<PoolConnection> {
  const connection = await pool.getConnection();
  await connection.query(how);
  return connection;
}

async function ended(connection: PoolConnection, how = "COMMIT"): Promise<void> {
  await connection.query(how);
  connection.release();
}

beforeAll(async () => {
  server = await startMariadb({ own: true });
  pool = createPool({ uri: server.url, connectionLimit: 40 });
});

afterAll(async () => {
  for (const locks of opened) await locks.close({ drain: 0 });
  await pool?.end();
  await server?.stop();
});

describe.each(["table", "row"] as const)("in %s mode", (mode) => {
  it.each(["COMMIT", "ROLLBACK"])(
    "a lock lasts until %s, excludes others and has a growing fence (P1, P3)",
    async (end) => {
      const locks = open(mode);
      const before = await locks.using("tx", (lease) => lease.fence);
      const [one, two] = [await begun(), await begun()];
      const lease = await locks.inTransaction(one).acquire("tx");
      expect(lease.fence > before).toBe(true);
      await expect(locks.inTransaction(two).acquire("tx", { wait: 50 })).rejects.toMatchObject({
        code: "ERR_LOCK_TIMEOUT",
      });
      await one.query(end);
      const next = await locks.inTransaction(two).acquire("tx");
      expect(next.fence > lease.fence).toBe(true);
      await two.query("COMMIT");
      expect(await locks.using("tx", (third) => third.fence > next.fence)).toBe(true);
      one.release();
      two.release();
    },
  );

  it("a lock of a transaction and one outside of it exclude each other, and whoever asks in vain locks nothing (P1)", async () => {
    const locks = open(mode);
    const lease = await locks.acquire("both");
    const connection = await begun();
    expect(await locks.inTransaction(connection).tryAcquire("both")).toBeNull();
    await expect(locks.inTransaction(connection).acquire("both", { wait: 60 })).rejects.toMatchObject({
      code: "ERR_LOCK_TIMEOUT",
      holders: [{ label: lease.label }],
    });
    // The transaction is open still, and does not stand in the way.
    await lease.extend("20s");
    expect(await lease.release()).toBe(true);
    const inside = await locks.inTransaction(connection).acquire("both");
    let got = false;
    const outside = locks.acquire("both", { wait: "100s" }).then((one) => {
      got = true;
      return one;
    });
    // Longer than any wait of ours for a row.
    await io.sleep(2_200);
    expect(got).toBe(false);
    await ended(connection);
    const after = await outside;
    expect(after.fence > inside.fence).toBe(true);
    await after.release();
  });

  it("several keys are taken all or none, and an attempt in vain leaves the transaction usable (P9)", async () => {
    const locks = open(mode);
    const [one, two] = [await begun(), await begun()];
    await locks.inTransaction(one).acquire("b");
    expect(await locks.inTransaction(two).tryAcquire(["a", "c"])).not.toBeNull();
    await two.query("COMMIT");
    await two.query("START TRANSACTION");
    await expect(locks.inTransaction(two).acquire(["a", "b", "c"], { wait: 50 })).rejects.toMatchObject({
      code: "ERR_LOCK_TIMEOUT",
    });
    await locks.inTransaction(one).acquire("a", { wait: "100s" });
    const [rows] = await two.query("SELECT 1 AS alive");
    expect(rows).toEqual([{ alive: 1 }]);
    await one.query("COMMIT");
    const all = await locks.inTransaction(two).acquire(["c", "a", "b"], { wait: "100s" });
    expect(all.keys).toEqual(["a", "b", "c"]);
    expect(() => (all as TransactionLease).fence).toThrow("fenceOf");
    expect(all.fenceOf("b") > 0n).toBe(true);
    one.release();
    await ended(two, "ROLLBACK");
  });

  it("the same transaction may ask again", async () => {
    const locks = open(mode);
    const connection = await begun();
    const first = await locks.inTransaction(connection).acquire("again");
    const second = await locks.inTransaction(connection).acquire(["again", "more"]);
    expect(second.fenceOf("again") >= first.fence).toBe(true);
    await connection.query("COMMIT");
    await connection.query("START TRANSACTION");
    const third = await locks.inTransaction(connection).acquire("again");
    expect(third.fence > second.fenceOf("again")).toBe(true);
    await ended(connection);
  });

  it("the lock of a transaction whose client was cut off is free again (P10)", async () => {
    const locks = open(mode);
    const connection = await begun();
    await locks.inTransaction(connection).acquire("cut");
    connection.destroy();
    await locks.using("cut", { wait: "100s" }, () => {});
    expect(await locks.inspect("cut")).toBeNull();
  });

  it("any connection of mysql2 will do: without promises, with autocommit off, with odd settings", async () => {
    const locks = open(mode);
    const odd = createCallbackPool({
      uri: server.url,
      rowsAsArray: true,
      bigNumberStrings: true,
      supportBigNumbers: true,
      flags: ["-FOUND_ROWS"],
    });
    const connection = await new Promise<PoolConnection>((resolve, reject) => {
      odd.getConnection((error, got) => (error ? reject(error) : resolve(got as unknown as PoolConnection)));
    });
    const plain = (connection as unknown as { promise(): PoolConnection }).promise();
    await plain.query("SET autocommit = 0");
    const lease = await locks.inTransaction(connection).acquire("odd");
    expect(typeof lease.fence).toBe("bigint");
    expect(await locks.inTransaction(plain).tryAcquire("odd")).not.toBeNull();
    await plain.query("COMMIT");
    await locks.using("odd", { wait: "100s" }, () => {});
    await odd.promise().end();
  });

  it("what is no transaction, or one elsewhere, is refused by name (P17)", async () => {
    const locks = open(mode);
    const connection = await pool.getConnection();
    await expect(locks.inTransaction(connection).acquire("k")).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringContaining("BEGIN") as string,
    });
    for (const tx of [null, 7, {}, { query: () => {} }, pool]) {
      await expect(locks.inTransaction(tx as never).acquire("k")).rejects.toMatchObject({
        code: "ERR_LOCK_ARGUMENT",
      });
    }
    await connection.query("USE information_schema");
    await connection.query("START TRANSACTION");
    await expect(locks.inTransaction(connection).acquire("k")).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringContaining("information_schema") as string,
    });
    connection.destroy();
  });

  it.each(["REPEATABLE READ", "READ COMMITTED"])(
    "under %s lock and data are one: nothing is lost, a rollback takes both back, and locks outside go on",
    async (isolation) => {
      const locks = open(mode);
      const key = `counter ${isolation}`;
      await pool.query("CREATE OR REPLACE TABLE counter (n INT NOT NULL) ENGINE=InnoDB");
      await pool.query("INSERT INTO counter VALUES (0)");
      const raise = async (keep: boolean): Promise<void> => {
        const connection = await pool.getConnection();
        await connection.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${isolation}`);
        await connection.query("START TRANSACTION");
        await locks.inTransaction(connection).using(key, { wait: "100s" }, async () => {
          const [rows] = await connection.query<RowDataPacket[]>("SELECT n FROM counter");
          await io.sleep(1);
          await connection.query("UPDATE counter SET n = ?", [Number(rows[0]?.["n"]) + 1]);
        });
        await ended(connection, keep ? "COMMIT" : "ROLLBACK");
      };
      const outside = async (): Promise<void> => {
        await locks.using(key, { wait: "100s" }, async () => {
          const [rows] = await pool.query<RowDataPacket[]>("SELECT n FROM counter");
          await io.sleep(1);
          await pool.query("UPDATE counter SET n = ?", [Number(rows[0]?.["n"]) + 1]);
        });
      };
      const work = Array.from({ length: 12 }, (_none, at) =>
        at % 3 === 2 ? outside() : raise(at % 6 !== 0),
      );
      await Promise.all(work);
      const [rows] = await pool.query("SELECT n FROM counter");
      expect(rows).toEqual([{ n: 10 }]);
    },
  );
});

it("table mode takes exclusive locks only, row mode readers too (P17)", async () => {
  const [table, rows] = [open("table"), open("row")];
  const [one, two] = [await begun(), await begun()];
  await expect(table.inTransaction(one).acquire("s", { mode: "shared" })).rejects.toMatchObject({
    code: "ERR_LOCK_UNSUPPORTED",
  });
  const readers = [
    await rows.inTransaction(one).acquire("s", { mode: "shared" }),
    await rows.inTransaction(two).acquire("s", { mode: "shared" }),
  ];
  expect(new Set(readers.map(({ fence }) => fence)).size).toBe(2);
  await expect(rows.acquire("s", { wait: 50 })).rejects.toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
  await ended(one);
  await ended(two);
  await rows.using("s", { wait: "100s" }, () => {});
});

it("after the server has rolled the transaction back, nothing is locked outside of one (P17)", async () => {
  const locks = open("row");
  await pool.query("CREATE OR REPLACE TABLE circle (id INT PRIMARY KEY) ENGINE=InnoDB");
  await pool.query("INSERT INTO circle VALUES (1), (2)");
  const [one, two] = [await begun(), await begun()];
  const ask = async (connection: PoolConnection, id: number): Promise<string> => {
    try {
      await connection.query("SELECT * FROM circle WHERE id = ? FOR UPDATE", [id]);
      return "went on";
    } catch {
      return await locks
        .inTransaction(connection)
        .acquire("victim")
        .then(
          () => "locked",
          (error: { code: string }) => error.code,
        );
    } finally {
      await ended(connection, "ROLLBACK");
    }
  };
  await one.query("SELECT * FROM circle WHERE id = 1 FOR UPDATE");
  await two.query("SELECT * FROM circle WHERE id = 2 FOR UPDATE");
  const outcomes = await Promise.all([ask(one, 2), ask(two, 1)]);
  expect(outcomes.sort()).toEqual(["ERR_LOCK_ARGUMENT", "went on"]);
});

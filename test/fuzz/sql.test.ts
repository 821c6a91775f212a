// Rows of the lease tables that somebody else has written: columns with JSON of another shape, or none, and numbers that cannot be.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startMariadb } from "../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { createLocks, type Locks, UnsafeStoreError } from "../../src/index.ts";
import { Asking } from "../servers/mysql-client.ts";
import { PostgresWorld, until } from "../postgres/world.ts";
import { complaints, damagedJson, runs } from "./damage.ts";

interface Database {
  readonly url: string;
  /** One column of the row of "damaged"; whether there was a row. */
  set(column: string, value: string | null): Promise<boolean>;
  get(column: string): Promise<string>;
  stop(): Promise<void>;
}

async function postgres(): Promise<Database> {
  const world = await PostgresWorld.start();
  const where = "WHERE key = 'damaged' AND namespace = 'holdfast'";
  return {
    url: world.url,
    async set(column, value) {
      const type = column === "marks" ? "jsonb" : column === "record" ? "text" : "bigint";
      const sql = `UPDATE holdfast_locks SET ${column} = $1::text::${type}, over_at = now() ${where} RETURNING 1`;
      return (await world.ask(sql, [value])).length > 0;
    },
    get: async (column) =>
      String((await world.ask(`SELECT ${column}::text AS it FROM holdfast_locks ${where}`))[0]?.["it"]),
    stop: () => world.stop(),
  };
}

async function mariadb(): Promise<Database> {
  const server: RunningServer = await startMariadb({ own: true });
  const asking = await Asking.open(server.url);
  const where = "WHERE lock_key = 'damaged' AND namespace = 'holdfast'";
  return {
    url: server.url,
    set: async (column, value) =>
      (await asking.run(`UPDATE holdfast_lock SET ${column} = ?, over_us = 0 ${where}`, [ascii(value)]))
        .affectedRows > 0,
    get: async (column) => String(await asking.one(`SELECT ${column} FROM holdfast_lock ${where}`)),
    async stop() {
      asking.close();
      await server.stop();
    },
  };
}

/** The column has no others. */
function ascii(text: string | null): string | null {
  return text?.replaceAll(/[^\x20-\x7e]/g, "?") ?? null;
}

describe.each([
  ["PostgreSQL", postgres],
  ["MariaDB", mariadb],
] as const)("%s", (name, start) => {
  let database: Database;
  let locks: Locks;
  const real = { record: "", marks: "" };

  beforeAll(async () => {
    database = await start();
    locks = createLocks(database.url);
    const other = createLocks(database.url);
    const lease = await locks.acquire("damaged");
    const next = other.acquire("damaged");
    await until("a waiter", async () => (await locks.inspect("damaged"))?.waiters?.length === 1);
    real.record = await database.get("record");
    await lease.release();
    await (await next).release();
    real.marks = await database.get("marks");
    await other.close();
  }, 120_000);

  afterAll(async () => {
    await locks?.close();
    await database?.stop();
  });

  async function plant(column: string, value: string | null): Promise<void> {
    if (await database.set(column, value)) return;
    await locks.using("damaged", () => {});
    expect(await database.set(column, value)).toBe(true);
  }

  it("turns that are no whole numbers are told by name", async () => {
    const marks = JSON.parse(real.marks) as Record<string, [number, number]>;
    for (const proc of Object.keys(marks)) {
      await plant("marks", JSON.stringify({ ...marks, [proc]: [1.5, marks[proc]?.[1]] }));
      expect(await complaints(locks, "damaged", "fine"), proc).toEqual([]);
      // By the way of all rules, and not by the short one of plain locks.
      const reader = locks.tryAcquire("damaged", { mode: "shared" });
      await expect(reader).rejects.toBeInstanceOf(UnsafeStoreError);
    }
    await plant("marks", real.marks);
  });

  it.each(["record", "marks"] as const)("a %s of another shape is told by name", async (column) => {
    const json = damagedJson(() => real[column]);
    // The column of PostgreSQL takes nothing but JSON, without zeros.
    const fits = (text: string): boolean => name === "MariaDB" || column === "record" || isJson(text);
    await fc.assert(
      fc.asyncProperty(json.filter(fits), async (text) => {
        await plant(column, text);
        try {
          expect(await complaints(locks, "damaged", "fine")).toEqual([]);
        } finally {
          await plant("record", null);
          await plant("marks", "{}");
        }
      }),
      runs(30),
    );
  });

  it("numbers that cannot be are told by name", async () => {
    const columns = ["last", "fence", "room", "used"];
    for (const column of columns)
      for (const value of ["-1", "9223372036854775807", ...(column === "last" ? [] : [null])]) {
        const lease = await locks.acquire("damaged");
        const before = await database.get(column);
        await plant(column, value);
        expect(await complaints(locks, "damaged", "fine"), `${column} ${value}`).toEqual([]);
        await plant(column, before);
        await plant("last", String(lease.fence));
        await lease.release().catch(() => false);
        await locks.revoke("damaged", { reason: "test", force: true });
      }
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return !text.includes("\\u0000");
  } catch {
    return false;
  }
}

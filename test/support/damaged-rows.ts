// Rows of a lease table that somebody else has written: columns with JSON of another shape, or none, and numbers that cannot be.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Lease, type Locks, UnsafeStoreError } from "../../src/index.ts";
import { complaints, damagedJson } from "./damage.ts";
import { runs } from "./histories-count.ts";
import { until } from "./store-calls.ts";

export interface Database {
  readonly url: string;
  /** One column of the row of "damaged"; whether there was a row. */
  set(column: string, value: string | null): Promise<boolean>;
  get(column: string): Promise<string>;
  stop(): Promise<void>;
}

export function testDamagedRows(name: string, start: () => Promise<Database>): void {
  describe(`damaged rows of ${name}`, () => {
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
    });

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

    it("a damaged row keeps no other lease from being renewed (P17, P19)", async () => {
      const leases: Lease[] = [];
      for (const key of ["damaged", "fine:1", "fine:2", "fine:3"])
        leases.push(await locks.acquire(key, { ttl: "3s" }));
      const renewed = new Set<string>();
      const off = locks.on("renewed", ({ key }) => void renewed.add(key));
      await until("the loss of the damaged one", async () => {
        // Again and again: a renewal that has read the row before would write it as it was.
        await plant("record", "[1]");
        return leases[0]?.held === false;
      });
      expect(leases.map(({ held }) => held)).toEqual([false, true, true, true]);
      expect([...renewed]).toEqual(expect.arrayContaining(["fine:1", "fine:2", "fine:3"]));
      off();
      await plant("record", null);
      await Promise.all(leases.map((lease) => lease.release()));
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
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return !text.includes("\\u0000");
  } catch {
    return false;
  }
}

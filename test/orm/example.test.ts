// The example of docs/guides/stacks.md, on a real server.

import { Kysely, PostgresDialect } from "kysely";
import { expect, it } from "vitest";
import { SCHEMA } from "../../examples/everyday/invoice.ts";
import { invoice, type Tables } from "../../examples/everyday/invoice-kysely.ts";
import { startPostgres } from "../../scripts/servers/postgres.ts";
import { createLocks } from "../../src/index.ts";
import { openPool } from "../support/pg-pool.ts";

it("invoices at the same time have numbers without gaps, also when some are rolled back", async () => {
  const server = await startPostgres({ own: true });
  const pool = openPool(server.url);
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  const locks = createLocks(server.url);
  await pool.query(SCHEMA);
  const refused = new Set([2, 5]);
  const approve = (number: number): boolean => !refused.delete(number);
  const outcomes = await Promise.allSettled(
    Array.from({ length: 8 }, (_none, at) => invoice(locks, db, `customer ${at}`, approve)),
  );
  expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(2);
  const { rows } = await pool.query<{ number: number }>("SELECT number FROM invoices ORDER BY number");
  expect(rows.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6]);
  await locks.close();
  await db.destroy();
  await server.stop();
});

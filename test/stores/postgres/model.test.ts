// The same random histories for the statements in a real PostgreSQL and for the rules of the ledger: every answer and every look must
// be equal, fences and times included. What the short ways decide in SQL is thereby held against the rules. The statements read
// the time from a table instead of the server's clock, so that it can be moved by hand; nothing else in them is changed.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Pool } from "pg";
import type { OpenStore } from "../../../src/core/store.ts";
import { readSettings } from "../../../src/stores/postgres/check.ts";
import { postgresGuarantees } from "../../../src/stores/postgres/index.ts";
import { type PgPool, PgPort } from "../../../src/stores/postgres/port.ts";
import { type Sql, sqlFor } from "../../../src/stores/postgres/sql.ts";
import { PostgresTable } from "../../../src/stores/postgres/table.ts";
import { LeaseTable } from "../../../src/stores/shared/lease-table.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { ops, Pair, several, type Side, wish } from "../../support/histories.ts";
import { runs } from "../../support/histories-count.ts";
import { openPool } from "../../support/pg-pool.ts";
import { io, PostgresWorld } from "./fixture.ts";

const HISTORIES = runs(60);

let world: PostgresWorld;
let pool: Pool;
let port: PgPort;

beforeAll(async () => {
  world = await PostgresWorld.start();
  await world.open();
  await world.ask("CREATE TABLE bent_clock (at timestamptz NOT NULL)");
  await world.ask("INSERT INTO bent_clock VALUES (now())");
  pool = openPool(world.url);
  port = new PgPort(pool as unknown as PgPool, false, nodeSystem.monoMs);
});

afterAll(async () => {
  await pool?.end();
  await world?.stop();
});

const bent = Object.fromEntries(
  Object.entries(sqlFor("holdfast")).map(([name, text]) => [
    name,
    text.replaceAll("clock_timestamp()", "(SELECT at FROM bent_clock)"),
  ]),
) as Sql;

async function bentStore(namespace: string): Promise<OpenStore> {
  const settings = await readSettings(port, bent, io);
  const table = new PostgresTable(port, settings, { namespace, sql: bent, system: nodeSystem });
  return new LeaseTable("postgres", table, postgresGuarantees, { namespace, system: nodeSystem, allow: [] });
}

/** Pushes are sent by the server when it commits; what they say is tried elsewhere. */
const side: Side = {
  beatFirst: true,
  async setClock(us) {
    await world.ask(
      "UPDATE bent_clock SET at = timestamptz 'epoch' + $1::bigint * interval '1 microsecond'",
      [us],
    );
  },
};

describe("the statements", () => {
  it(
    "give the answers of the ledger, for any history of requests, releases, revocations and pauses (P1, P3, P5, P8, P9, P12)",
    async () => {
      let histories = 0;
      let short = 0;
      await fc.assert(
        fc.asyncProperty(ops(several, wish), async (history) => {
          histories += 1;
          const namespace = `m${histories}`;
          const pair = new Pair(side, await Promise.all(["a", "b"].map(() => bentStore(namespace))));
          for (const one of history) {
            const { ours, rules } = await pair.play(one);
            expect(ours).toEqual(rules);
          }
          const rows = await world.ask(
            "SELECT 1 FROM holdfast_locks WHERE namespace = $1 AND record IS NULL",
            [namespace],
          );
          short += rows.length;
        }),
        HISTORIES,
      );
      // Both forms of a row have been met.
      expect(short).toBeGreaterThan(0);
    },
    120_000 + HISTORIES.numRuns * 500,
  );
});

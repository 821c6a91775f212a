// Rows of the lease table in PostgreSQL that somebody else has written.

import { type Database, testDamagedRows } from "../../support/damaged-rows.ts";
import { PostgresWorld } from "./fixture.ts";

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

testDamagedRows("PostgreSQL", postgres);

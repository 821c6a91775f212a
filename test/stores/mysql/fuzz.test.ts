// Rows of the lease table in MariaDB that somebody else has written.

import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { type Database, testDamagedRows } from "../../support/damaged-rows.ts";
import { Asking } from "./client.ts";

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

testDamagedRows("MariaDB", mariadb);

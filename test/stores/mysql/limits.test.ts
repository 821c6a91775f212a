// What one row must not cost the others.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { mysql } from "../../../src/stores/mysql/index.ts";
import { testTableLimits } from "../../support/table-limits.ts";
import { Asking } from "./client.ts";

testTableLimits("MariaDB", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-mysql-data-"));
  const node = new MariadbNode(await freePort(), folder, 1, {});
  await node.start();
  const asking = await Asking.open(node.url);
  return {
    url: node.url,
    open: (system) => mysql({ url: node.url }).open({ namespace: "limits", system, allow: [] }),
    async lockRow(key) {
      const operator = await Asking.open(node.url);
      const name = await operator.one("SELECT name FROM holdfast_locks WHERE lock_key = ?", [key]);
      await operator.run("BEGIN");
      await operator.rows("SELECT 1 FROM holdfast_locks WHERE name = ? FOR UPDATE", [name]);
      return async () => {
        await operator.run("ROLLBACK");
        operator.close();
      };
    },
    damage: async (key) =>
      void (await asking.run("UPDATE holdfast_locks SET mode = '?' WHERE lock_key = ?", [key])),
    addOldRows: async (rows) =>
      void (await asking.run(
        `INSERT INTO holdfast_locks (name, namespace, lock_key, over_us, fence)
         SELECT UNHEX(SHA2(seq, 256)), 'old', seq, 1, 1 FROM seq_1_to_${rows}`,
      )),
    countRows: async () => Number(await asking.one("SELECT COUNT(*) FROM holdfast_locks")),
    async stop() {
      asking.close();
      await node.stop();
    },
  };
});

// One MariaDB or MySQL as the subject of the suite, in either mode, with its data kept over a restart.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type MariadbArgs, MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { mysql, mysqlGuarantees, mysqlRowGuarantees } from "../../../src/stores/mysql/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";

/** `options`: of the server. */
export function mysqlSubject(
  mode: "table" | "row",
  options: MariadbArgs = {},
): { readonly store: Subject; readonly server: Server } {
  let node: MariadbNode | null = null;
  let dataFolder: string | null = null;
  const url = (): string => `${node?.url}?mode=${mode}`;
  return {
    store: {
      name: `mysql, ${mode} mode`,
      guarantees: mode === "row" ? mysqlRowGuarantees : mysqlGuarantees,
      create: () => mysql({ url: url() }),
      child: () => ({ url: url() }),
      footprint: (namespace) => countRows(node as MariadbNode, mode, namespace),
    },
    server: {
      async start() {
        dataFolder = mkdtempSync(join(tmpdir(), "holdfast-mysql-data-"));
        node = new MariadbNode(await freePort(), dataFolder, 1, options);
        await node.start();
      },
      async restart() {
        await node?.kill();
        await node?.start();
      },
      async stop() {
        await node?.stop();
        if (dataFolder !== null) rmSync(dataFolder, { recursive: true, force: true });
      },
    },
  };
}

const TABLES = {
  row: ["holdfast_row", "holdfast_row_holder"],
  table: ["holdfast_locks"],
} as const;

async function countRows(node: MariadbNode, mode: "table" | "row", namespace: string): Promise<number> {
  const counts = TABLES[mode].map(
    (name) => `(SELECT COUNT(*) FROM ${name} WHERE namespace = '${namespace}')`,
  );
  const [row] = await node.query(`SELECT ${counts.join(" + ")} AS n`);
  return Number(row?.["n"]);
}

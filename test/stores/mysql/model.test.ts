// The same random histories for the lease table in a real MariaDB and for the rules of the ledger: every answer and every look must be
// equal, fences and times included. The statements read the time from a table instead of the server's clock, so that it can be
// moved by hand; nothing else in them is changed.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { OpenStore } from "../../../src/core/store.ts";
import { parseUrl } from "../../../src/stores/mysql/options.ts";
import { loadMysql2, Mysql2Port } from "../../../src/stores/mysql/client/mysql2.ts";
import { Fleet } from "../../../src/stores/mysql/client/primary-finder.ts";
import { mysqlGuarantees } from "../../../src/stores/mysql/index.ts";
import { Pool } from "../../../src/stores/mysql/client/pool.ts";
import type { MysqlPort, SqlConnection } from "../../../src/stores/mysql/client/port.ts";
import { sql } from "../../../src/stores/mysql/sql.ts";
import { MysqlTable } from "../../../src/stores/mysql/table.ts";
import { LeaseTable } from "../../../src/stores/shared/lease-table.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { Asking } from "./client.ts";
import { ops, Pair, several, type Side, wish } from "../../support/histories.ts";
import { runs } from "../../support/histories-count.ts";
import { io, relayed } from "./fixture.ts";

const HISTORIES = runs(40);

let node: MariadbNode;
let asking: Asking;
const pools: Pool[] = [];

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-model-")), 1, {});
  await node.start();
  asking = await Asking.open(node.url);
  await asking.run("CREATE TABLE bent_clock (us BIGINT NOT NULL)");
  await asking.run("INSERT INTO bent_clock VALUES (1)");
  const port = bent(new Mysql2Port(await loadMysql2(), parseUrl(node.url).login));
  for (let proc = 0; proc < 2; proc += 1) pools.push(new Pool(new Fleet(port, 0), nodeSystem));
  // The server's start is reckoned from its clock, so the primary must be known before that is moved.
  await Promise.all(pools.map((pool) => pool.primary(io)));
});

afterAll(async () => {
  for (const pool of pools) pool.close();
  asking?.close();
  await node?.stop();
});

/** Over which every statement reads the time that the test has set. */
function bent(port: MysqlPort): MysqlPort {
  const bentConnection = (one: SqlConnection): SqlConnection =>
    relayed(one, (text, values) =>
      one.run(text.replaceAll(sql["now"], "(SELECT us FROM bent_clock)"), values),
    );
  return {
    hosts: port.hosts,
    connect: async (host) => bentConnection(await port.connect(host)),
    close: () => port.close(),
  };
}

function store(pool: Pool, namespace: string): OpenStore {
  const table = new MysqlTable(pool, { namespace, system: nodeSystem, several: false });
  return new LeaseTable("mysql", table, mysqlGuarantees, { namespace, system: nodeSystem, allow: [] });
}

/** Pushes are rows that the next look finds; what they say is tried elsewhere. */
const side: Side = {
  beatFirst: true,
  claimMs: mysqlGuarantees.claimMs,
  async setClock(us) {
    await asking.run("UPDATE bent_clock SET us = ?", [us]);
  },
};

describe("the statements", () => {
  it(
    "give the answers of the ledger, for any history of requests, releases, revocations and pauses (P1, P3, P5, P8, P9, P12)",
    async () => {
      let histories = 0;
      let grants = 0;
      await fc.assert(
        fc.asyncProperty(ops(several, wish), async (history) => {
          histories += 1;
          const pair = new Pair(
            side,
            pools.map((pool) => store(pool, `m${histories}`)),
          );
          for (const one of history) {
            const { ours, rules } = await pair.play(one);
            expect(ours).toEqual(rules);
            if (JSON.stringify(ours).includes('"granted"')) grants += 1;
          }
        }),
        HISTORIES,
      );
      expect(grants).toBeGreaterThan(HISTORIES.numRuns);
    },
    120_000 + HISTORIES.numRuns * 500,
  );
});

// The pool of connections: whoever waits for one gets the first that is free.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { parseUrl } from "../../../src/stores/mysql/options.ts";
import type { Address } from "../../../src/stores/mysql/client/port.ts";
import { loadMysql2, Mysql2Port } from "../../../src/stores/mysql/client/mysql2.ts";
import { PrimaryFinder } from "../../../src/stores/mysql/client/primary-finder.ts";
import { Pool } from "../../../src/stores/mysql/client/pool.ts";
import { tableSchema } from "../../../src/stores/mysql/schema.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { io, until } from "./fixture.ts";

const CONNECTIONS = 6;

let node: MariadbNode;

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, {});
  await node.start();
});

afterAll(() => node?.stop());

it("callers that gave up while they waited for a connection keep none from the others (P13)", async () => {
  const port = new Mysql2Port(await loadMysql2(), parseUrl(node.url).login);
  const pool = new Pool(new PrimaryFinder(port, tableSchema(true), 1_000), nodeSystem);
  const free: (() => void)[] = [];
  const uses = Array.from({ length: CONNECTIONS }, () =>
    pool.use(() => new Promise<void>((resolve) => free.push(resolve)), io),
  );
  await until("that all are in use", () => free.length === CONNECTIONS);
  const patient = pool.run("SELECT 2 AS two", [], io);
  await io.sleep(0);
  const impatient = Array.from({ length: 3 }, () => new AbortController());
  const refused = impatient.map(({ signal }) => pool.run("SELECT 1", [], { signal }).catch(String));
  await io.sleep(0);
  for (const controller of impatient) controller.abort();
  expect(await Promise.all(refused)).toEqual(refused.map(() => expect.stringContaining("in time") as string));
  free[0]?.();
  expect((await patient).rows).toEqual([{ two: 2 }]);
  for (const end of free) end();
  await Promise.all(uses);
  pool.close();
});

it("connections that were given up or failed are forgotten (P20)", async () => {
  const { login } = parseUrl(node.url);
  const port = new Mysql2Port(await loadMysql2(), login);
  const [host] = login.hosts as [Address];
  const [given, ended] = await Promise.all([port.connect(host), port.connect(host)]);
  expect(port.openConnections).toBe(2);
  given.destroy();
  await ended.run("KILL CONNECTION_ID()").catch(() => {});
  await until("that the server ended it", () => !ended.alive);
  await expect(port.connect({ host: "127.0.0.1", port: await freePort() })).rejects.toThrow("ECONNREFUSED");
  expect(port.openConnections).toBe(0);
});

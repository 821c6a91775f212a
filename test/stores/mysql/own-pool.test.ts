// Other ways to connect than a URL: a pool of mysql2, a Unix socket, a password that changes.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createPool as createCallbackPool } from "mysql2";
import { createPool, type Pool, type RowDataPacket } from "mysql2/promise";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { mysql, type MysqlOptions } from "../../../src/stores/mysql/index.ts";
import { Asking } from "./client.ts";

const SESSION =
  "SELECT CONNECTION_ID() AS id, @@SESSION.sql_mode AS mode, @@SESSION.tx_isolation AS level, " +
  "@@SESSION.time_zone AS zone, @@SESSION.autocommit AS auto";

let node: MariadbNode;
let dataFolder: string;
const opened: Locks[] = [];

const open = (options: MysqlOptions): Locks => {
  const locks = createLocks(mysql(options));
  opened.push(locks);
  return locks;
};

beforeAll(async () => {
  dataFolder = mkdtempSync(join(tmpdir(), "holdfast-mysql-data-"));
  node = new MariadbNode(await freePort(), dataFolder, 1, {});
  await node.start();
});

afterAll(async () => {
  for (const locks of opened) await locks.close({ drain: 0 });
  await node?.stop();
});

async function sessionOf(pool: Pool): Promise<RowDataPacket | undefined> {
  const [rows] = await pool.query<RowDataPacket[]>(SESSION);
  return rows[0];
}

it.each(["table", "row"] as const)(
  "a pool of mysql2 is the way to the server, and stays as it was, mode %s (P3)",
  async (mode) => {
    const pool = createPool({ uri: node.url, connectionLimit: 1, rowsAsArray: false });
    const before = await sessionOf(pool);
    const [byPool, byUrl] = [open({ pool, mode }), open({ url: node.url, mode })];
    const lease = await byPool.acquire("pooled");
    expect(await byUrl.tryAcquire("pooled")).toBeNull();
    const waiting = byUrl.acquire("pooled", { wait: "100s" });
    await lease.release();
    const next = await waiting;
    expect(next.fence > lease.fence).toBe(true);
    await next.release();
    await byPool.close();
    expect(await sessionOf(pool)).toEqual(before);
    await pool.end();
  },
);

it("a pool with callbacks is taken too, whatever it says about results", async () => {
  const pool = createCallbackPool({ uri: node.url, rowsAsArray: true, namedPlaceholders: true });
  const locks = open({ pool });
  await locks.using("callbacks", (lease) => expect(lease.fence > 0n).toBe(true));
  await locks.close();
  await pool.promise().end();
});

it("a Unix socket is an option or stands in the URL", async () => {
  const socketPath = join(dataFolder, "s.sock");
  await node.query("CREATE USER app@localhost IDENTIFIED BY 'app'; GRANT ALL ON locks.* TO app@localhost");
  // Nobody listens there.
  const url = node.url.replace(`:${node.port}/`, ":1/");
  const [one, two] = [
    open({ url, socketPath }),
    open({ url: `${url}?socketPath=${encodeURIComponent(socketPath)}` }),
  ];
  const lease = await one.acquire("by socket");
  expect(await two.tryAcquire("by socket")).toBeNull();
  await lease.release();
});

it("a function gives the password of each new connection, also after it has changed", async () => {
  let password = "first";
  let asked = 0;
  await node.query("CREATE USER rotating@'%' IDENTIFIED BY 'first'; GRANT ALL ON locks.* TO rotating@'%'");
  const locks = open({
    url: node.url.replace(/\/\/[^@]*@/, "//rotating@"),
    password: () => {
      asked += 1;
      return Promise.resolve(password);
    },
  });
  await locks.using("rotating", () => {});
  const before = asked;
  expect(before).toBeGreaterThan(0);
  password = "second";
  await node.query("ALTER USER rotating@'%' IDENTIFIED BY 'second'");
  const asking = await Asking.open(node.url);
  const sessions = await asking.rows("SELECT id FROM information_schema.processlist WHERE user = 'rotating'");
  for (const { id } of sessions) await asking.run(`KILL ${Number(id)}`);
  asking.close();
  await locks.using("rotating", { wait: "100s" }, () => {});
  expect(asked).toBeGreaterThan(before);
});

it("what is no pool of mysql2 is rejected with an error that says so (P17)", async () => {
  const pool = createPool(node.url);
  const connection = await pool.getConnection();
  const openWith = (wrong: unknown) => () => mysql({ pool: wrong } as MysqlOptions);
  const pgLike = { connect: () => {}, query: () => {}, end: () => {}, totalCount: 0, options: {} };
  for (const wrong of [connection, pgLike, {}, null, "mysql://h/db", () => {}])
    expect(openWith(wrong)).toThrow("mysql({ pool }) takes a pool of mysql2");
  connection.release();
  const homeless = createPool({ host: "127.0.0.1" });
  expect(openWith(homeless)).toThrow("names no database");
  expect(() => mysql({ pool, url: node.url } as unknown as MysqlOptions)).toThrow("either a pool or a url");
  expect(() => mysql({} as MysqlOptions)).toThrow("either a pool or a url");
  expect(() => mysql({ pool, ssl: {} } as unknown as MysqlOptions)).toThrow('no option "ssl"');
  expect(() => mysql({ url: node.url, socketPath: "" })).toThrow("socketPath");
  expect(() => mysql({ url: node.url, password: 5 as unknown as string })).toThrow("password");
  await pool.end();
  await homeless.end();
});

// postgres.js in the place of pg: its options are the way to the server, and the instance stays as it was.

import { connect } from "node:net";
import { once } from "node:events";
import postgresJs from "postgres";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { postgres, type PostgresOptions } from "../../../src/stores/postgres/index.ts";
import { openPool } from "../../support/pg-pool.ts";
import { PostgresWorld, until } from "./fixture.ts";

let world: PostgresWorld;
const opened: Locks[] = [];

const open = (options: PostgresOptions): Locks => {
  const locks = createLocks(postgres(options));
  opened.push(locks);
  return locks;
};

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(async () => {
  for (const locks of opened) await locks.close({ drain: 0 });
  await world?.stop();
});

it.each(["table", "advisory"] as const)(
  "locks by postgres.js and by pg exclude each other and wake each other, mode %s (P3, P11)",
  async (mode) => {
    const sql = postgresJs(world.url, { max: 1, transform: postgresJs.camel });
    const [one, two] = [open({ pool: sql, mode }), open({ url: world.url, mode })];
    const lease = await one.acquire("both");
    expect(await two.tryAcquire("both")).toBeNull();
    const waiting = two.acquire("both", { wait: "100s" });
    await until("a waiter", async () => (await one.inspect("both")) !== null);
    await lease.release();
    const next = await waiting;
    expect(next.fence > lease.fence).toBe(true);
    const back = one.acquire("both", { wait: "100s" });
    await next.release();
    expect((await back).fence > next.fence).toBe(true);
    await (await back).release();
    expect((await one.check()).map(({ id }) => id)).not.toContain("no-push");
    await one.close();
    // Nothing of ours is left, and the instance works as before.
    await until("the end of our sessions", async () => {
      const rows = await world.ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'postgres.js'");
      return rows.length === 0;
    });
    expect([...(await sql`SELECT 1 AS some_name`)]).toEqual([{ someName: 1 }]);
    await sql.end();
  },
);

it("every kind of value reaches the server: odd keys, labels, several keys, permits (P6)", async () => {
  const sql = postgresJs(world.url, { types: { bigint: postgresJs.BigInt } });
  const [one, two] = [open({ pool: sql }), open({ url: world.url })];
  const keys = ['a"b', "c\\d", "{e,f}", "NULL", "ü€😀", " g "];
  const label = 'label \\ " { } \u{1F600}';
  const lease = await one.acquire(keys, { label });
  for (const key of keys) {
    expect(await two.tryAcquire(key)).toBeNull();
    expect((await two.inspect(key))?.holders[0]?.label).toBe(label);
    expect((await one.inspect(key))?.holders[0]?.fence).toBe(lease.fenceOf(key));
  }
  const listed: string[] = [];
  for await (const { key } of one.list({ prefix: "" })) listed.push(key);
  expect(listed).toEqual(expect.arrayContaining(keys));
  expect(await one.revoke("NULL", { reason: "a test", force: true })).toBe(true);
  await until("the loss", () => Promise.resolve(!lease.held));
  await lease.release().catch(() => {});
  const permits = await one.acquire("pool", { limit: 3, permits: 2 });
  expect(await two.tryAcquire("pool", { limit: 3, permits: 2 })).toBeNull();
  const third = await two.acquire("pool", { limit: 3 });
  await Promise.all([permits.release(), third.release()]);
  await one.close();
  await sql.end();
});

it("a connection that breaks is replaced, and the lease of before is kept (P13)", async () => {
  const proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
  const sql = postgresJs(world.url.replace(String(world.server.port), String(proxy.port)));
  const locks = open({ pool: sql });
  const lease = await locks.acquire("kept", { ttl: "60s" });
  proxy.cut();
  await expect(locks.tryAcquire("other", { ttl: 600 })).rejects.toMatchObject({
    code: "ERR_STORE_UNAVAILABLE",
  });
  proxy.heal();
  await locks.using("other", { wait: "100s" }, () => {});
  expect(await lease.verify()).toBe(true);
  await lease.release();
  await locks.close();
  await sql.end();
  await proxy.close();
});

it("the options of the instance are the way: a socket function and a password function", async () => {
  let [sockets, passwords] = [0, 0];
  const sql = postgresJs({
    host: "nowhere.invalid",
    user: "postgres",
    database: "postgres",
    pass: () => {
      passwords += 1;
      return "unused by trust";
    },
    socket: async () => {
      sockets += 1;
      const socket = connect(world.server.port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    },
  } as object);
  const locks = open({ pool: sql });
  await locks.using("by socket", () => {});
  expect(sockets).toBeGreaterThan(0);
  expect(passwords).toBe(0);
  await locks.close();
  await sql.end();
});

it("what is neither a pool of pg nor an instance of postgres.js is rejected by name (P17)", async () => {
  const pool = openPool(world.url);
  const client = await pool.connect();
  const sql = postgresJs(world.url);
  const openWith = (wrong: unknown) => () => postgres({ pool: wrong } as PostgresOptions);
  await sql.begin((transaction) => {
    for (const wrong of [client, transaction, {}, null, () => {}, "postgres://h/db"])
      expect(openWith(wrong)).toThrow("a Pool of the package pg");
    return Promise.resolve();
  });
  client.release();
  await pool.end();
  await sql.end();
});

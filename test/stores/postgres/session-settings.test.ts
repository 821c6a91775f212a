// Whatever a role, a database or a session has as its defaults, all processes use the same tables and what
// was granted is on disk.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startPostgres } from "../../../scripts/servers/postgres.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { postgres } from "../../../src/stores/postgres/index.ts";
import { openPool } from "../../support/pg-pool.ts";
import { answered, PostgresWorld, until } from "./fixture.ts";

let world: PostgresWorld;
const opened: Locks[] = [];

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterEach(async () => {
  for (const locks of opened.splice(0)) await locks.close();
});

afterAll(() => world?.stop());

function open(url: string): Locks {
  const locks = createLocks(url);
  opened.push(locks);
  return locks;
}

/** A superuser with a setting of its own. */
async function role(name: string, setting: string): Promise<string> {
  await world.ask(`CREATE ROLE ${name} SUPERUSER LOGIN`);
  await world.ask(`ALTER ROLE ${name} SET ${setting}`);
  return world.url.replace("postgres@", `${name}@`);
}

const schemasOf = async (table: string): Promise<unknown[]> =>
  (await world.ask("SELECT schemaname FROM pg_tables WHERE tablename = $1 ORDER BY 1", [table])).map(
    (row) => row["schemaname"],
  );

describe.each([
  ["table", "lock"],
  ["advisory", "fences"],
])("search_path, mode %s", (mode, name) => {
  const at = (url: string, table: string): string => `${url}?mode=${mode}&table=${table}`;

  it("of two roles leads to one set of tables and one holder (P1)", async () => {
    await world.ask(`CREATE SCHEMA first_${mode}; CREATE SCHEMA second_${mode}`);
    const one = await role(`one_${mode}`, `search_path = first_${mode}`);
    const two = await role(`two_${mode}`, `search_path = second_${mode}`);
    const lease = await open(at(one, "roles")).acquire("k");
    for (const url of [two, world.url]) {
      const locks = open(at(url, "roles"));
      expect(await answered(() => locks.tryAcquire("k"))).toBeNull();
    }
    expect(await schemasOf(`roles_${name}`)).toEqual([`first_${mode}`]);
    await lease.release();
    const next = await open(at(two, "roles")).acquire("k");
    expect(next.fence > lease.fence).toBe(true);
  });

  it("that changes while a store is open changes nothing, also when its tables are gone (P1)", async () => {
    await world.ask(`CREATE SCHEMA later_${mode}`);
    const pool = openPool(world.url, { max: 2 });
    const locks = createLocks(postgres({ pool, table: "changed", mode: mode as "table" }));
    opened.push(locks);
    const lease = await locks.acquire("k");
    for (const client of [await pool.connect(), await pool.connect()]) {
      await client.query(`SET search_path = later_${mode}`);
      client.release();
    }
    expect(await answered(() => locks.tryAcquire("k"))).toBeNull();
    expect(await lease.verify()).toBe(true);
    expect(await lease.release()).toBe(true);
    await world.ask("DROP TABLE IF EXISTS changed_lock, changed_fences, changed_sessions CASCADE");
    await until("the tables", () => locks.using("k", () => true).catch(() => false));
    expect(await schemasOf(`changed_${name}`)).toEqual(["public"]);
    await locks.close();
    await pool.end();
  });

  it("with tables of one name in two schemas is refused until the schema is named (P19)", async () => {
    await world.ask(`CREATE SCHEMA a_${mode}; CREATE SCHEMA "b ""'${mode}"`);
    await (await open(at(world.url, `a_${mode}.twice`)).acquire("k")).release();
    await (
      await open(at(await role(`quoted_${mode}`, `search_path = "b ""'${mode}"`), "once")).acquire("k")
    ).release();
    expect(await schemasOf(`once_${name}`)).toEqual([`b "'${mode}`]);
    await world.ask(`ALTER TABLE "b ""'${mode}".once_${name} RENAME TO twice_${name}`);
    await expect(open(at(world.url, "twice")).acquire("k")).rejects.toMatchObject({
      code: "ERR_STORE_UNSAFE",
      setting: "search_path",
      message: expect.stringContaining(`a_${mode}`) as string,
    });
    await (await open(at(world.url, `a_${mode}.twice`)).acquire("k")).release();
  });
});

it("defaults of a role that change what statements see or print change nothing (P1, P3)", async () => {
  const settings = [
    "default_transaction_isolation = 'serializable'",
    "default_transaction_isolation = 'repeatable read'",
    "timezone = 'Pacific/Auckland'",
    "datestyle = 'German'",
    "bytea_output = 'escape'",
    "standard_conforming_strings = off",
    "lock_timeout = 1",
  ];
  for (const [number, setting] of settings.entries()) {
    const url = await role(`defaults_${number}`, setting);
    const [one, two] = [open(url), open(world.url)];
    const lease = await one.acquire("defaults", { wait: 60_000 });
    expect(await answered(() => two.tryAcquire("defaults")), setting).toBeNull();
    const waiting = two.acquire("defaults", { wait: 60_000 });
    await expect.poll(async () => (await one.inspect("defaults"))?.waiters?.length).toBe(1);
    await lease.extend();
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.fence > lease.fence, setting).toBe(true);
    expect(await answered(() => one.tryAcquire("defaults")), setting).toBeNull();
    await next.release();
  }
});

it("synchronous_commit = off of a role loses no grant when the server is killed (P1, P3, P19)", async () => {
  const dataFolder = mkdtempSync(join(tmpdir(), "holdfast-postgres-data-"));
  // What is not forced to the log stays in the server's memory for as long as the test lasts.
  const settings = { wal_writer_delay: "10s", synchronous_commit: "off" };
  let server = await startPostgres({ own: true, dataFolder, settings });
  try {
    const { port } = server;
    const locks = open(server.url);
    await (await locks.acquire("first")).release();
    const lease = await locks.acquire("kept", { ttl: "120s" });
    server.kill("SIGKILL");
    await server.stop();
    server = await startPostgres({ own: true, dataFolder, settings, port });
    await expect.poll(() => locks.tryAcquire("kept").catch(() => "not yet"), { timeout: 60_000 }).toBeNull();
    await expect.poll(() => lease.verify().catch(() => "not yet"), { timeout: 60_000 }).toBe(true);
    expect((await locks.check()).map(({ id }) => id)).not.toContain("synchronous-commit");
    await lease.release();
  } finally {
    await server.stop();
    rmSync(dataFolder, { recursive: true, force: true });
  }
});

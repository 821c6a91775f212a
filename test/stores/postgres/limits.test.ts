// What one row must not cost the others, and what a blocked row must not cost the server.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { postgres } from "../../../src/stores/postgres/index.ts";
import { fullSchema } from "../../../src/stores/postgres/schema.ts";
import { sqlFor } from "../../../src/stores/postgres/sql.ts";
import { openPool } from "../../support/pg-pool.ts";
import { testTableLimits } from "../../support/table-limits.ts";
import { io, PostgresWorld, request, until } from "./fixture.ts";

async function lockRow(world: PostgresWorld, key: string): Promise<() => Promise<void>> {
  const client = await world.client();
  await client.query("BEGIN");
  await client.query("SELECT name FROM holdfast_lock WHERE key = $1 FOR UPDATE", [Buffer.from(key)]);
  return async () => {
    await client.query("ROLLBACK");
    client.release();
  };
}

testTableLimits("PostgreSQL", async () => {
  const world = await PostgresWorld.start();
  const count = async (): Promise<number> =>
    Number((await world.ask("SELECT count(*) AS n FROM holdfast_lock"))[0]?.["n"]);
  return {
    url: world.url,
    open: (system) => postgres({ url: world.url }).open({ namespace: "limits", system, allow: [] }),
    lockRow: (key) => lockRow(world, key),
    damage: async (key) =>
      void (await world.ask("UPDATE holdfast_lock SET fence = -1 WHERE key = $1", [Buffer.from(key)])),
    addOldRows: async (rows) =>
      void (await world.ask(
        `INSERT INTO holdfast_lock (name, namespace, key, changed_at)
         SELECT sha256(n::text::bytea), 'old', n::text::bytea, now() - interval '1 hour'
         FROM generate_series(1, $1::int) AS n`,
        [rows],
      )),
    countRows: count,
    stop: () => world.stop(),
  };
});

describe("one server", () => {
  let world: PostgresWorld;

  beforeAll(async () => {
    world = await PostgresWorld.start();
  });

  afterAll(() => world?.stop());

  const waiting = async (): Promise<number> => {
    const [row] = await world.ask(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    );
    return Number(row?.["n"]);
  };

  it.each([
    ["a row", "SELECT name FROM holdfast_lock FOR UPDATE"],
    ["the table", "LOCK TABLE holdfast_lock IN ACCESS EXCLUSIVE MODE"],
  ])(
    "a call that is given up leaves no session behind that waits for %s (P16, P20)",
    async (_what, statement) => {
      const locks = createLocks(world.url);
      await (await locks.acquire("blocked", { wait: 60_000 })).release();
      const client = await world.client();
      await client.query("BEGIN");
      await client.query(statement);
      let most = 0;
      for (let round = 0; round < 40; round += 1) {
        await locks.tryAcquire("blocked", { ttl: 300 }).catch(() => {});
        most = Math.max(most, await waiting());
      }
      // As many as the pool has connections, and a few that are about to end.
      expect(most).toBeLessThan(15);
      await until("the end of all that waits", async () => (await waiting()) === 0);
      await client.query("ROLLBACK");
      client.release();
      expect(await locks.using("blocked", { wait: 60_000 }, () => 7)).toBe(7);
      await locks.close();
    },
  );
});

it("several keys get their own fences while their names are forgotten for those of others (P3)", async () => {
  const world = await PostgresWorld.start();
  const store = await world.open();
  const attempt = store.attempt(request(["b", "a"]), io);
  const others = Array.from({ length: 10_000 }, (_none, at) => `other:${at}`);
  expect(await store.owns(request(others), null, io)).toBe(false);
  const answer = await attempt;
  const fences = "granted" in answer ? answer.granted.fences : [];
  // Microseconds of the server's clock, in the order of the keys.
  const { rows } = await world.pool.query("SELECT fence FROM holdfast_lock ORDER BY key DESC");
  expect(fences.map(String)).toEqual(rows.map((row: { fence: string }) => row.fence));
  await world.stop();
});

it("on a pool of its own a store locks by plain statements, on a given one by functions", async () => {
  const world = await PostgresWorld.start();
  const pool = openPool(world.url, { max: 1, application_name: "given" });
  const [own, given] = [createLocks(world.url), createLocks(postgres({ pool }))];
  for (const locks of [own, given]) {
    for (let times = 0; times < 3; times += 1) await locks.using("k", { wait: 60_000 }, () => 7);
  }
  const last = async (name: string): Promise<unknown> => {
    const text = "SELECT string_agg(query, ' ') AS texts FROM pg_stat_activity WHERE application_name = $1";
    return (await world.ask(text, [name]))[0]?.["texts"];
  };
  expect(await last("holdfast")).toContain("UPDATE public.holdfast_lock");
  expect(await last("given")).toContain("SELECT public.holdfast_release_one");
  await Promise.all([own.close(), given.close()]);
  await pool.end();
  await world.stop();
});

it("the plain statements use the index, also in a session that planned on an empty table (P21)", async () => {
  const world = await PostgresWorld.start();
  const client = await world.client();
  await client.query(fullSchema("public.holdfast"));
  const { own_session, attempt_free, release_free } = sqlFor("public.holdfast");
  await client.query(own_session);
  const statements = { attempt: attempt_free, release: release_free };
  const values = { attempt: "'\\x00', 'id', 'proc', 'label', 1, 1", release: "'\\x00', 'id', 1" };
  for (const name of ["attempt", "release"] as const) {
    await client.query(`PREPARE ${name} AS ${statements[name]}`);
    // After five executions the server may keep one plan for all.
    for (let times = 0; times < 7; times += 1) await client.query(`EXECUTE ${name}(${values[name]})`);
  }
  await client.query(
    `INSERT INTO holdfast_lock (name, namespace, key, changed_at)
     SELECT sha256(n::text::bytea), 'many', n::text::bytea, now() FROM generate_series(1, 5000) AS n`,
  );
  for (const name of ["attempt", "release"] as const) {
    const { rows } = await client.query<{ "QUERY PLAN": string }>(`EXPLAIN EXECUTE ${name}(${values[name]})`);
    expect(rows.map((row) => row["QUERY PLAN"]).join("\n")).toContain("Index Scan using holdfast_lock_pkey");
  }
  client.release();
  await world.stop();
});

it("a value of the call that the server cannot take is not told as a damaged record (P17)", async () => {
  const world = await PostgresWorld.start();
  const store = await world.open();
  for (const mode of ["exclusive", "shared"] as const) {
    const attempt = store.attempt(request(`far:${mode}`, { ttlMs: 1e16, mode }), io);
    await expect(attempt).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  }
  await world.stop();
});

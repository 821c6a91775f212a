// What one row must not cost the others, and what a blocked row must not cost the server.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { postgres } from "../../../src/stores/postgres/index.ts";
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
      await until("the end of all that waits", async () => (await waiting()) === 0, 20_000);
      await client.query("ROLLBACK");
      client.release();
      expect(await locks.using("blocked", { wait: 60_000 }, () => 7)).toBe(7);
      await locks.close();
    },
  );
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

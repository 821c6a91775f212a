// Behind PgBouncer: table mode works in transaction mode, advisory mode refuses it and takes session mode.

import { afterAll, beforeAll, expect, it } from "vitest";
import { startPgbouncer } from "../../../scripts/servers/pgbouncer.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks } from "../../../src/index.ts";
import { postgres } from "../../../src/stores/postgres/index.ts";
import { openPool } from "../../support/pg-pool.ts";
import { PostgresWorld, until } from "./fixture.ts";

let world: PostgresWorld;
let transactions: RunningServer;
let sessions: RunningServer;

beforeAll(async () => {
  world = await PostgresWorld.start();
  transactions = await startPgbouncer({ serverPort: world.server.port });
  sessions = await startPgbouncer({ serverPort: world.server.port, poolMode: "session" });
});

afterAll(async () => {
  await transactions?.stop();
  await sessions?.stop();
  await world?.stop();
});

it("table mode locks, waits, passes on and releases behind a transaction pooler, and says that nothing is pushed (P11, P19)", async () => {
  const [one, two, direct] = [
    createLocks(transactions.url),
    createLocks(transactions.url),
    createLocks(world.url),
  ];
  let [inside, most, before] = [0, 0, 0n];
  const section = async (locks: typeof one): Promise<void> => {
    await locks.using("pooled", { wait: "100s" }, async (lease) => {
      inside += 1;
      most = Math.max(most, inside);
      expect(lease.fence > before).toBe(true);
      before = lease.fence;
      await Promise.resolve();
      inside -= 1;
    });
  };
  for (let turn = 0; turn < 5; turn += 1) await Promise.all([one, two, direct].map(section));
  expect(most).toBe(1);
  expect(await direct.inspect("pooled")).toBeNull();
  expect((await one.check()).map(({ id }) => id)).toContain("no-push");
  expect((await direct.check()).map(({ id }) => id)).not.toContain("no-push");
  await Promise.all([one, two, direct].map((locks) => locks.close()));
});

it("statements are prepared on direct connections only, and whoever throws the plans away does no harm", async () => {
  const pool = openPool(world.url, { max: 1 });
  const count = async (): Promise<number> => {
    const { rows } = await pool.query<{ n: string }>(
      "SELECT count(*) AS n FROM pg_prepared_statements WHERE name LIKE 'holdfast_%'",
    );
    return Number(rows[0]?.n);
  };
  const locks = createLocks(postgres({ pool }));
  await locks.using("planned", () => {});
  expect(await count()).toBeGreaterThan(1);
  await pool.query("DISCARD ALL");
  await locks.using("planned", (lease) => expect(lease.fence > 0n).toBe(true));
  expect(await count()).toBe(0);
  await locks.close();
  await pool.end();
  const pooled = createLocks(transactions.url);
  for (let turn = 0; turn < 3; turn += 1) await pooled.using("planned", () => {});
  await pooled.close();
  const behind = openPool(transactions.url, { max: 1 });
  const { rows } = await behind.query<{ n: string }>("SELECT count(*) AS n FROM pg_prepared_statements");
  expect(rows).toEqual([{ n: "0" }]);
  await behind.end();
});

it("advisory mode refuses a transaction pooler by name, unless it is allowed (P19)", async () => {
  const refused = createLocks(`${transactions.url}?mode=advisory`);
  await expect(refused.acquire("k")).rejects.toMatchObject({
    code: "ERR_STORE_UNSAFE",
    setting: "pool_mode",
    fix: expect.stringContaining("pooler") as string,
  });
  await refused.close();
  const allowed = createLocks(`${transactions.url}?mode=advisory`, { allow: ["pooler"] });
  expect((await allowed.check()).find(({ id }) => id === "pooler")?.level).toBe("danger");
  await allowed.close();
});

it("advisory mode takes a session pooler and mentions it, and nobody between us and the server is not mentioned", async () => {
  const [pooled, direct] = [
    createLocks(`${sessions.url}?mode=advisory`),
    createLocks(`${world.url}?mode=advisory`),
  ];
  const lease = await pooled.acquire("k");
  expect(await direct.tryAcquire("k")).toBeNull();
  expect((await pooled.check()).find(({ id }) => id === "pooler")?.level).toBe("info");
  expect((await direct.check()).map(({ id }) => id)).not.toContain("pooler");
  await lease.release();
  const next = await direct.acquire("k");
  expect(next.fence > lease.fence).toBe(true);
  await next.release();
  await pooled.close();
  await direct.close();
  await until("the end of all locks", async () => {
    const rows = await world.ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
    return rows.length === 0;
  });
});

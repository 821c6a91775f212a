// Locks in a transaction of the caller's: they end with it, and lock and data are one.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type TransactionLease } from "../../../src/index.ts";
import { memory } from "../../../src/stores/memory/index.ts";
import { postgres } from "../../../src/stores/postgres/index.ts";
import { openPool } from "../../support/pg-pool.ts";
import { PostgresWorld } from "./fixture.ts";

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(() => world?.stop());

describe.each(["table", "advisory"] as const)("in %s mode", (mode) => {
  const url = (): string => `${world.url}?mode=${mode}`;

  it.each(["COMMIT", "ROLLBACK"])(
    "a lock lasts until %s, excludes others and has a growing fence (P1, P3)",
    async (end) => {
      const locks = createLocks(url());
      const [one, two] = [await world.client(), await world.client()];
      const before = await locks.using("tx", (lease) => lease.fence);
      await one.query("BEGIN");
      await two.query("BEGIN");
      const lease = await locks.inTransaction(one).acquire("tx");
      expect(lease.fence > before).toBe(true);
      expect(await locks.inTransaction(two).tryAcquire("tx")).toBeNull();
      await expect(locks.inTransaction(two).acquire("tx", { wait: 150 })).rejects.toMatchObject({
        code: "ERR_LOCK_TIMEOUT",
      });
      await one.query(end);
      const next = await locks.inTransaction(two).acquire("tx");
      expect(next.fence > before).toBe(true);
      if (end === "COMMIT") expect(next.fence > lease.fence).toBe(true);
      await two.query("COMMIT");
      expect(await locks.using("tx", (third) => third.fence > next.fence)).toBe(true);
      one.release();
      two.release();
      await locks.close();
    },
  );

  it("a lock of a transaction and one outside of it exclude each other (P1)", async () => {
    const locks = createLocks(url());
    const client = await world.client();
    const lease = await locks.acquire("both");
    await client.query("BEGIN");
    expect(await locks.inTransaction(client).tryAcquire("both")).toBeNull();
    await expect(locks.inTransaction(client).acquire("both", { wait: 60 })).rejects.toMatchObject({
      code: "ERR_LOCK_TIMEOUT",
      holders: [{ label: lease.label }],
    });
    await lease.release();
    const inside = await locks.inTransaction(client).acquire("both");
    let got = false;
    const outside = locks.acquire("both", { wait: "100s" }).then((one) => {
      got = true;
      return one;
    });
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(got).toBe(false);
    await client.query("COMMIT");
    const after = await outside;
    expect(after.fence > inside.fence).toBe(true);
    await after.release();
    client.release();
    await locks.close();
  });

  it("several keys are taken all or none, and an attempt in vain leaves the transaction usable (P9)", async () => {
    const locks = createLocks(url());
    const [one, two] = [await world.client(), await world.client()];
    await one.query("BEGIN");
    await two.query("BEGIN");
    await locks.inTransaction(one).acquire("b");
    expect(await locks.inTransaction(two).tryAcquire(["a", "b", "c"])).toBeNull();
    expect(await locks.inTransaction(one).tryAcquire("a")).not.toBeNull();
    expect((await two.query("SELECT 1 AS alive")).rows).toEqual([{ alive: 1 }]);
    await one.query("COMMIT");
    const all = await locks.inTransaction(two).acquire(["c", "a", "b"]);
    expect(all.keys).toEqual(["a", "b", "c"]);
    expect(() => (all as TransactionLease).fence).toThrow("fenceOf");
    expect(all.fenceOf("b") > 0n).toBe(true);
    await two.query("ROLLBACK");
    one.release();
    two.release();
    await locks.close();
  });

  it("the lock of a transaction whose client was cut off is free at once (P10)", async () => {
    const locks = createLocks(url());
    const client = await world.client();
    client.on("error", () => {});
    await client.query("BEGIN");
    await locks.inTransaction(client).acquire("cut");
    client.release(true);
    await locks.using("cut", { wait: "100s" }, () => {});
    await locks.close();
  });

  it("what is no transaction is refused by name (P17)", async () => {
    const locks = createLocks(url());
    const client = await world.client();
    await expect(locks.inTransaction(client).acquire("k")).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringContaining("BEGIN") as string,
    });
    for (const tx of [null, 7, {}, world.pool]) {
      await expect(locks.inTransaction(tx as never).acquire("k")).rejects.toMatchObject({
        code: "ERR_LOCK_ARGUMENT",
      });
    }
    client.release();
    await locks.close();
  });
});

it("a store without transactions says so", async () => {
  const locks = createLocks(memory());
  await expect(locks.inTransaction({ query: () => {} }).acquire("k")).rejects.toMatchObject({
    code: "ERR_LOCK_UNSUPPORTED",
  });
  await locks.close();
});

it("lock and data are one: a counter that is raised under it loses nothing, and a rollback takes both back", async () => {
  const locks = createLocks(world.url);
  await world.ask("CREATE TABLE counter (n integer NOT NULL)");
  await world.ask("INSERT INTO counter VALUES (0)");
  const raise = async (keep: boolean): Promise<void> => {
    const client = await world.client();
    await client.query("BEGIN");
    await locks.inTransaction(client).using("counter", { wait: "100s" }, async () => {
      const { rows } = await client.query<{ n: number }>("SELECT n FROM counter");
      await client.query("UPDATE counter SET n = $1", [(rows[0]?.n ?? 0) + 1]);
    });
    await client.query(keep ? "COMMIT" : "ROLLBACK");
    client.release();
  };
  await Promise.all(Array.from({ length: 30 }, (_none, at) => raise(at % 3 !== 0)));
  expect(await world.ask("SELECT n FROM counter")).toEqual([{ n: 20 }]);
  await locks.close();
});

it("needs no second connection of the pool: all may be in transactions that lock (P13)", async () => {
  const pool = openPool(world.url, { max: 3 });
  const locks = createLocks(postgres({ pool }));
  await locks.inspect("pool:0");
  const clients = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
  await Promise.all(clients.map((client) => client.query("BEGIN")));
  const leases = await Promise.all(
    clients.map((client, at) => locks.inTransaction(client).acquire(`pool:${at}`, { wait: 3_000 })),
  );
  expect(leases.map(({ key }) => key)).toEqual(["pool:0", "pool:1", "pool:2"]);
  for (const client of clients) {
    await client.query("COMMIT");
    client.release();
  }
  await locks.close();
  await pool.end();
});

it("attempts of one transaction at the same time go one after another", async () => {
  const locks = createLocks(world.url);
  const client = await world.client();
  const warnings: Error[] = [];
  const heard = (warning: Error): void => void warnings.push(warning);
  process.on("warning", heard);
  await client.query("BEGIN");
  const keys = ["same:1", "same:2", "same:3"];
  const taken = await Promise.all(keys.map((key) => locks.inTransaction(client).acquire(key)));
  await client.query("COMMIT");
  expect(taken.map(({ key }) => key)).toEqual(keys);
  client.release();
  await locks.close();
  process.off("warning", heard);
  expect(warnings).toEqual([]);
});

// Locks in the transactions of ORMs and query builders: their commit and their rollback end the lock.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startMariadb } from "../../scripts/servers/mariadb.ts";
import { startPostgres } from "../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { createLocks, type Locks } from "../../src/index.ts";
import { type Database, LIBRARIES, type Library } from "./libraries.ts";

const servers = new Map<Database, RunningServer>();
const DATABASES: readonly Database[] = ["postgres", "mysql"];

beforeAll(async () => {
  const started = await Promise.all([startPostgres({ own: true }), startMariadb({ own: true })]);
  DATABASES.forEach((database, at) => servers.set(database, started[at] as RunningServer));
});

afterAll(() => Promise.all([...servers.values()].map((server) => server.stop())));

const CASES = Object.keys(LIBRARIES).flatMap((name) =>
  DATABASES.flatMap((database) =>
    (database === "postgres" ? ["table", "advisory"] : ["table", "row"]).map((mode) => ({
      name,
      database,
      mode,
    })),
  ),
);

describe.each(CASES)("a transaction of $name on $database in $mode mode", ({ name, database, mode }) => {
  let locks: Locks;
  let library: Library;
  const table = `orders_${name}_${mode}`.toLowerCase();

  beforeAll(async () => {
    const { url } = servers.get(database) as RunningServer;
    locks = createLocks(`${url}?mode=${mode}`);
    const open = LIBRARIES[name];
    if (open === undefined) throw new Error(`there is no library ${name}`);
    library = await open(database, url);
    await library.transact(({ run }) => run(`CREATE TABLE ${table} (id int PRIMARY KEY)`));
  });

  afterAll(async () => {
    await library?.close();
    await locks?.close();
  });

  it.each(["commit", "rollback"])(
    "holds the lock until its %s, with a growing fence (P1, P3)",
    async (end) => {
      const before = await locks.using(end, ({ fence }) => fence);
      const undone = new Error("undone on purpose");
      let fence = 0n;
      const order: string[] = [];
      let outside = Promise.resolve(0n);
      const done = library.transact(async ({ port, run }) => {
        fence = (await locks.inTransaction(port).acquire(end)).fence;
        await run(`INSERT INTO ${table} VALUES (${end.length})`);
        outside = locks.using(end, { wait: "100s" }, (lease) => {
          order.push("outside");
          return lease.fence;
        });
        await library.transact(async (other) => {
          expect(await locks.inTransaction(other.port).tryAcquire(end)).toBeNull();
        });
        order.push("inside");
        if (end === "rollback") throw undone;
      });
      await (end === "rollback" ? expect(done).rejects.toBe(undone) : done);
      expect(fence > before).toBe(true);
      expect((await outside) > before).toBe(true);
      expect(order).toEqual(["inside", "outside"]);
      const count = library.transact(({ run }) => run(`INSERT INTO ${table} VALUES (${end.length})`));
      await (end === "rollback" ? count : expect(count).rejects.toThrow());
    },
  );

  it("takes several keys or none, again in one transaction, and goes on after a busy key (P9)", async () => {
    const held = await locks.acquire("b");
    await library.transact(async ({ port, run }) => {
      expect(await locks.inTransaction(port).tryAcquire(["a", "b"])).toBeNull();
      await run("SELECT 1");
      await held.release();
      const lease = await locks.inTransaction(port).acquire(["a", "b"], { wait: "100s" });
      const again = await locks.inTransaction(port).acquire("a");
      expect(again.fence >= lease.fenceOf("a")).toBe(true);
    });
    for (const key of ["a", "b"]) await locks.using(key, { wait: "100s" }, () => {});
  });
});

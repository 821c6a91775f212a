// Rows of the tables in PostgreSQL that somebody else has written: numbers that cannot be, and holders that
// lack a part. Only the damaged key fails, by name (P17, P19).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Lease, type Locks, UnsafeStoreError } from "../../../src/index.ts";
import { complaints } from "../../support/damage.ts";
import { answered, PostgresWorld, until } from "./fixture.ts";

const LARGEST = "9223372036854775807";
/** Of a key that is held. */
const DAMAGE: readonly (readonly [column: string, values: readonly (string | null)[]])[] = [
  ["last_fence", ["-1", LARGEST, "1"]],
  ["fence", ["-1", LARGEST, null]],
  ["fence_used", ["-1", LARGEST, null]],
  ["room", ["-1", "2147483647", null]],
  ["in_use", ["-1", "2", "2147483647"]],
  ["holders", ["-1"]],
  ["permit_limit", ["0", "-5"]],
  ["waiting", ["-1"]],
  ["head", ["0", "-1"]],
  ["last_ticket", ["-1"]],
  ["mode", ["'q'", "'s'"]],
  ["label", [null]],
  ["since_at", [null]],
  ["proc", [null]],
  ["id", [null]],
];

describe("damaged rows of PostgreSQL", () => {
  let world: PostgresWorld;
  let locks: Locks;
  let other: Locks;

  beforeAll(async () => {
    world = await PostgresWorld.start();
    locks = createLocks(world.url);
    other = createLocks(world.url);
  });

  afterAll(async () => {
    await locks?.close();
    await other?.close();
    await world?.stop();
  });

  const set = (column: string, value: string | null): Promise<unknown> =>
    world.ask(`UPDATE holdfast_lock SET ${column} = ${value ?? "NULL"} WHERE key = 'damaged' RETURNING 1`);

  it.each(DAMAGE)("%s that cannot be is told by name, and other keys work on", async (column, values) => {
    for (const value of values) {
      const lease = await locks.acquire("damaged", { wait: 60_000 });
      expect(await set(column, value)).toHaveLength(1);
      expect(await complaints(other, "damaged", "fine"), `${column} ${value}`).toEqual([]);
      const attempt = answered(() => other.tryAcquire("damaged", { mode: "shared" }));
      await expect(attempt, `${column} ${value}`).rejects.toBeInstanceOf(UnsafeStoreError);
      await world.ask("DELETE FROM holdfast_lock WHERE key = 'damaged'");
      await lease.release().catch(() => false);
    }
  });

  it("a damaged row keeps no other lease from being renewed or abandoned (P17, P19)", async () => {
    const leases: Lease[] = [];
    for (const key of ["damaged", "fine:1", "fine:2", "fine:3"])
      leases.push(await locks.acquire(key, { ttl: "6s", wait: 60_000 }));
    const renewed = new Set<string>();
    const off = locks.on("renewed", ({ key }) => void renewed.add(key));
    await set("fence", "-1");
    await until("the loss of the damaged one", () => leases[0]?.held === false);
    expect(leases.map(({ held }) => held)).toEqual([false, true, true, true]);
    expect([...renewed]).toEqual(expect.arrayContaining(["fine:1", "fine:2", "fine:3"]));
    off();
    await world.ask("DELETE FROM holdfast_lock WHERE key = 'damaged'");
    await Promise.all(leases.map((lease) => lease.release()));
  });
});

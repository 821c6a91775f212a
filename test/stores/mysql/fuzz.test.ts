// Rows of the lease table that somebody else has written: columns with values that cannot be, holders and
// waiters without a lock, counts that do not match.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks, type Locks, UnsafeStoreError } from "../../../src/index.ts";
import { complaints } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";
import { Asking } from "./client.ts";
import { answered } from "./fixture.ts";

const WHERE = "WHERE lock_key = 'damaged' AND namespace = 'holdfast'";
const NUMBERS = ["fence", "used", "size", "ends_us", "waiting", "ticket", "head", "ended_us"] as const;
const HOLDER_NUMBERS = ["first_fence", "room", "used_fence", "since_us", "keep_us", "over_us"] as const;

let server: RunningServer;
let asking: Asking;
let locks: Locks;

beforeAll(async () => {
  server = await startMariadb({ own: true });
  asking = await Asking.open(server.url);
  locks = createLocks(server.url);
  await locks.using("damaged", () => {});
});

afterAll(async () => {
  await locks?.close();
  asking?.close();
  await server?.stop();
});

/** A row as it should be, then changed. */
async function plant(change: string, values: readonly unknown[]): Promise<void> {
  const name = "UNHEX(SHA2(CONCAT('8:holdfast', 'damaged'), 256))";
  for (const table of ["locks", "holders", "waiters"])
    await asking.run(`DELETE FROM holdfast_${table} WHERE name = ${name}`);
  await locks.using("damaged", () => {});
  await asking.run(`UPDATE holdfast_locks SET ${change} ${WHERE}`, [...values]);
}

const number = fc.oneof(
  fc.constantFrom<number>(-1, 0, 1, 2, 1_000_000, 2_147_483_647, -2_147_483_648),
  fc.integer(),
);

describe("damaged rows of MariaDB", () => {
  it("numbers that cannot be are told by name, or do no harm (P17, P19)", async () => {
    const column = fc.constantFrom(...NUMBERS, ...HOLDER_NUMBERS);
    await fc.assert(
      fc.asyncProperty(column, number, column, number, async (one, first, other, second) => {
        await plant(`${one} = ?, ${other} = ?`, [first, second]);
        expect(await complaints(locks, "damaged", "fine")).toEqual([]);
      }),
      runs(30),
    );
  });

  it("a mode that nobody knows is told by name (P17, P19)", async () => {
    await plant("mode = '?', used = 1, ends_us = 9000000000000000", []);
    expect(await complaints(locks, "damaged", "fine")).toEqual([]);
    await expect(answered(() => locks.tryAcquire("damaged"))).rejects.toBeInstanceOf(UnsafeStoreError);
    await expect(locks.inspect("damaged")).rejects.toBeInstanceOf(UnsafeStoreError);
  });

  it("permits without holders, and a queue without waiters, pass with their end (P10)", async () => {
    await plant("mode = 'p', used = 3, size = 3, ends_us = 1, waiting = 5", []);
    const lease = await locks.acquire("damaged", { wait: 60_000 });
    expect(await lease.release()).toBe(true);
  });

  it("a damaged row keeps no other lease from being renewed (P17, P19)", async () => {
    const healthy = await locks.acquire("healthy", { ttl: "60s" });
    await plant("mode = '?', used = 1", []);
    const sick = locks.acquire("damaged", { wait: 60_000 });
    await expect(sick).rejects.toBeInstanceOf(UnsafeStoreError);
    await healthy.extend();
    expect(healthy.held).toBe(true);
    expect(await healthy.release()).toBe(true);
  });
});

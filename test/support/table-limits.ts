// What one row must not cost the others, on any database with a lease table.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { OpenStore } from "../../src/core/store.ts";
import type { System } from "../../src/core/system.ts";
import { createLocks, type Lease, type Locks } from "../../src/index.ts";
import { nodeSystem } from "../../src/system/node.ts";
import { io, request, until } from "./store-calls.ts";

export interface LimitsDatabase {
  readonly url: string;
  open(system: System): Promise<OpenStore>;
  /** Locks the row of a key in a transaction of its own; the result ends the transaction. */
  lockRow(key: string): Promise<() => Promise<void>>;
  /** Makes the row of a key unreadable. */
  damage(key: string): Promise<void>;
  /** Adds so many rows that have been over for an hour. */
  addOldRows(count: number): Promise<void>;
  countRows(): Promise<number>;
  stop(): Promise<void>;
}

const OLD_ROWS = 25_000;

export function testTableLimits(name: string, start: () => Promise<LimitsDatabase>): void {
  describe(`one row of many on ${name}`, () => {
    let database: LimitsDatabase;
    let locks: Locks;

    beforeAll(async () => {
      database = await start();
      locks = createLocks(database.url);
    });

    afterAll(async () => {
      await locks?.close();
      await database?.stop();
    });

    /** Healthy leases first, so that these would be lost before the sick one if they were not renewed. */
    async function leases(sick: string): Promise<[Lease[], Lease]> {
      const options = { ttl: 6_000, wait: 60_000 };
      const healthy: Lease[] = [];
      for (let i = 0; i < 5; i += 1) healthy.push(await locks.acquire(`${sick}:${i}`, options));
      return [healthy, await locks.acquire(sick, options)];
    }

    it("that is locked by somebody else costs only its own lease (P1, P7)", async () => {
      const [healthy, sick] = await leases("locked");
      const unlock = await database.lockRow("locked");
      await until("the loss of the locked one", () => !sick.held);
      const held = healthy.map((lease) => lease.held);
      await unlock();
      expect(held).toEqual(healthy.map(() => true));
      for (const lease of healthy) expect(await lease.release()).toBe(true);
    });

    it("that is damaged costs only its own lease, and the others are listed (P17, P19)", async () => {
      const [healthy, sick] = await leases("sick");
      await database.damage("sick");
      await until("the loss of the damaged one", () => !sick.held);
      expect(healthy.map(({ held }) => held)).toEqual(healthy.map(() => true));
      const listed: string[] = [];
      for await (const { key } of locks.list({ prefix: "sick" })) listed.push(key);
      expect(listed).toEqual(healthy.map(({ key }) => key));
      for (const lease of healthy) expect(await lease.release()).toBe(true);
    });

    it("cleaning deletes whatever number of old rows there is (P16)", async () => {
      await database.addOldRows(OLD_ROWS);
      let aheadMs = 0;
      const store = await database.open({ ...nodeSystem, monoMs: () => nodeSystem.monoMs() + aheadMs });
      const use = async (): Promise<void> => {
        aheadMs += 61_000;
        const one = request("cleaner");
        await store.attempt(one, io);
        await store.release(one, null, { lastFences: [0n] }, io);
      };
      await use();
      // The floor is raised on the first occasion, and the rows below it are deleted on the second.
      await until("the old rows to go", async () => {
        await use();
        await io.sleep(300);
        return (await database.countRows()) < OLD_ROWS;
      });
      await until("all of them to go", async () => (await database.countRows()) < 1_000);
      await store.close();
    });
  });
}

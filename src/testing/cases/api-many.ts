// Many at once, and what is left behind: the counter fuzz, hand-offs, reports and close through the
// public API.

import assert from "node:assert/strict";
import type { Lease, Locks } from "../../index.ts";
import type { ApiCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { LONG_WAIT_MS, handled, sleep } from "../io.ts";
import { checkSections } from "../critical-section-log.ts";
import { AWKWARD_KEYS } from "./names.ts";

/** How long `close` keeps the lease of a plain acquire for its owner. */
const PLAIN_LEASE_MS = 1_000;

async function listed(locks: Locks, prefix = ""): Promise<string[]> {
  const keys: string[] = [];
  for await (const info of locks.list({ prefix })) keys.push(info.key);
  return keys.sort();
}

export const manyCases: readonly ApiCase[] = [
  {
    id: "api/counter",
    sentence:
      "a counter that many tasks of several opened stores raise loses no update, and fences grow in its order",
    promises: ["P1", "P3", "P11"],
    level: "api",
    needs: [],
    async run(ctx) {
      const all = [await ctx.locks(), await ctx.locks(), await ctx.locks({ handoff: 0 })];
      const key = ctx.key();
      const log: string[] = [];
      /** Who lost a lease to a stall of the machine: such a section has no end. */
      const lost = new Set<string>();
      let counter = 0;
      const task = async (who: number): Promise<void> => {
        for (let turn = 0; turn < 8; turn += 1) {
          const locks = required(all[who % all.length], "the locks");
          const section = async (lease: Lease): Promise<void> => {
            log.push(`begin ${lease.fence} ${who}`);
            const value = counter;
            await (turn % 3 === 0 ? sleep(1) : Promise.resolve());
            if (!lease.held) lost.add(String(who));
            lease.assertHeld();
            counter = value + 1;
            log.push(`end ${lease.fence} ${who}`);
          };
          await ctx.unlessStalled(() => locks.using(key, { wait: LONG_WAIT_MS }, section));
        }
      };
      await Promise.all(Array.from({ length: 12 }, (_none, who) => task(who)));
      assert.equal(checkSections(log, lost).finished, 96);
      assert.equal(counter, 96);
    },
  },
  {
    id: "api/crowd",
    sentence: "a thousand tasks of one process all come through, each with its own fence",
    promises: ["P3", "P11"],
    level: "api",
    needs: [],
    async run(ctx) {
      const locks = await ctx.locks();
      const key = ctx.key();
      const fences: bigint[] = [];
      const section = (lease: Lease): void => void fences.push(lease.fence);
      const task = (): Promise<void> => locks.using(key, { wait: LONG_WAIT_MS }, section);
      await Promise.all(Array.from({ length: 1_000 }, task));
      for (let i = 1; i < fences.length; i += 1) assertLarger(fences[i - 1] as bigint, fences[i] as bigint);
      assert.equal(fences.length, 1_000);
      assert.equal(await locks.inspect(key), null);
    },
  },
  {
    id: "api/reports",
    sentence: "inspect and list show who holds what, by label and fence",
    promises: ["P17", "P18"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks({ label: "worker 1" }), await ctx.locks()];
      const [first, second] = [ctx.key("jobs/"), ctx.key("users/")];
      const lease = await one.acquire(first);
      const special = await one.acquire(second, { label: "special" });
      const info = required(await two.inspect(first), "the lock");
      assert.deepEqual(
        info.holders.map(({ label, fence }) => [label, fence]),
        [["worker 1", lease.fence]],
      );
      assert.equal((await two.inspect(second))?.holders[0]?.label, "special");
      assert.deepEqual(await listed(two), [first, second].sort());
      assert.deepEqual(await listed(two, "jobs/"), [first]);
      assert.equal(await two.inspect("nobody"), null);
      assert.equal(lease.toJSON()["fence"], String(lease.fence));
      await Promise.all([lease.release(), special.release()]);
    },
  },
  {
    id: "api/names",
    sentence: "awkward keys are separate locks",
    promises: ["P18"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const leases = await Promise.all(AWKWARD_KEYS.map((key) => one.acquire(key, { wait: LONG_WAIT_MS })));
      for (const key of AWKWARD_KEYS)
        assert.equal(await two.tryAcquire(key), null, JSON.stringify(key).slice(0, 40));
      assert.deepEqual(await listed(two), [...AWKWARD_KEYS].sort());
      await Promise.all(leases.map((lease) => lease.release()));
      await rejectsWith("ERR_LOCK_ARGUMENT", one.acquire(""));
      await rejectsWith("ERR_LOCK_ARGUMENT", one.acquire("x".repeat(4_097)));
      await rejectsWith("ERR_LOCK_ARGUMENT", one.acquire("half of a pair \ud83d"));
    },
  },
  {
    id: "api/close",
    sentence: "close releases what is held, ends what waits, and leaves nothing behind",
    promises: ["P13", "P16"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [key, other] = [ctx.key(), ctx.key()];
      const held = await one.acquire(key);
      const kept = await two.acquire(other);
      const waiting = handled(rejectsWith("ERR_LOCK_ABORTED", one.acquire(other, { wait: LONG_WAIT_MS })));
      await ctx.untilWaiting(two, other);
      const sinceMs = ctx.nowMs();
      await one.close();
      await waiting;
      assert.ok(ctx.nowMs() - sinceMs <= PLAIN_LEASE_MS + ctx.slackMs, "close took too long");
      assert.equal(held.held, false);
      required(await two.tryAcquire(key), "the key that was released");
      assert.deepEqual((await two.inspect(other))?.waiters ?? [], []);
      await rejectsWith("ERR_LOCK_ABORTED", one.acquire(key));
      await one.close();
      await two.close();
      assert.equal(kept.held, false);
      assert.deepEqual(await listed(await ctx.locks()), []);
    },
  },
  {
    id: "api/guarantees",
    sentence: "the locks declare what the store declares",
    promises: ["P17"],
    level: "api",
    needs: [],
    async run(ctx) {
      const locks = await ctx.locks();
      assert.deepEqual(locks.guarantees, ctx.guarantees);
      assert.equal(Array.isArray(await locks.check()), true);
    },
  },
];

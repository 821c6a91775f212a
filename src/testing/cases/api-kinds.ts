// Readers, semaphores, several keys and `once` through the public API, and the refusal of what a store
// does not declare.

import assert from "node:assert/strict";
import type { Kind } from "../../core/store.ts";
import type { Lease, MultiLease } from "../../index.ts";
import type { ApiCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { LONG_WAIT_MS, handled, sleep } from "../io.ts";
import { kind, lacksAKind } from "../requirements.ts";

const KEPT_MS = 500;

export const kindCases: readonly ApiCase[] = [
  {
    id: "api/shared",
    sentence: "readers share a key and exclude writers",
    promises: ["P1"],
    level: "api",
    needs: [kind("shared")],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const readers = [one, two, one].map((locks) =>
        locks.acquire(key, { mode: "shared", wait: LONG_WAIT_MS }),
      );
      const held = await Promise.all(readers);
      assert.equal(new Set(held.map((lease) => lease.fence)).size, 3);
      assert.equal(await two.tryAcquire(key), null);
      const writer = handled(one.acquire(key, { wait: LONG_WAIT_MS }));
      for (const lease of held) assert.equal(await lease.release(), true);
      const lease = await writer;
      assert.equal(await two.tryAcquire(key, { mode: "shared" }), null);
      for (const reader of held) assertLarger(reader.fence, lease.fence);
    },
  },
  {
    id: "api/semaphore",
    sentence: "no more permits are out than the limit, over many tasks and processes",
    promises: ["P1", "P11"],
    level: "api",
    needs: [kind("semaphore")],
    async run(ctx) {
      const all = [await ctx.locks(), await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      let [out, most] = [0, 0];
      const task = async (i: number): Promise<void> => {
        const permits = 1 + (i % 3);
        const locks = required(all[i % all.length], "the locks");
        const options = { limit: 4, permits, wait: LONG_WAIT_MS };
        const section = async (lease: MultiLease): Promise<void> => {
          lease.assertHeld();
          out += permits;
          most = Math.max(most, out);
          await sleep(5);
          out -= permits;
          lease.assertHeld();
        };
        await ctx.unlessStalled(() => locks.using(key, options, section));
      };
      await Promise.all(Array.from({ length: 24 }, (_none, i) => task(i)));
      assert.ok(most <= 4, `${most} permits were out`);
      assert.ok(most >= 3, "the permits were never used side by side");
      assert.equal(await required(all[0], "the locks").inspect(key), null);
    },
  },
  {
    id: "api/semaphore-limits",
    sentence: "a limit can change while the semaphore is in use, and a call waits for its own",
    promises: ["P1", "P11"],
    level: "api",
    needs: [kind("semaphore")],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const [first, second] = [await one.acquire(key, { limit: 2 }), await one.acquire(key, { limit: 2 })];
      assert.equal(await two.tryAcquire(key, { limit: 2 }), null);
      const third = await two.acquire(key, { limit: 3, wait: LONG_WAIT_MS });
      const waiting = handled(two.acquire(key, { limit: 2, wait: LONG_WAIT_MS }));
      await first.release();
      assert.equal(await two.tryAcquire(key), null);
      await second.release();
      await waiting;
      await third.release();
    },
  },
  {
    id: "api/several",
    sentence: "several keys are taken all or none, in any order, each with its own fence",
    promises: ["P9", "P13"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [a, b, c] = [ctx.key("a"), ctx.key("b"), ctx.key("c")];
      await rejectsWith("ERR_LOCK_ARGUMENT", one.acquire([]));
      const inTheWay = await one.acquire(b);
      assert.equal(await two.tryAcquire([a, b, c]), null);
      await rejectsWith("ERR_LOCK_TIMEOUT", two.acquire([c, b, a], { wait: 100 }));
      for (const key of [a, c]) await (await one.acquire(key, { wait: LONG_WAIT_MS })).release();
      await inTheWay.release();
      const all = await two.acquire([c, a, b, a], { wait: LONG_WAIT_MS });
      assert.deepEqual(new Set(all.keys), new Set([a, b, c]));
      assert.equal(all.keys.length, 3);
      assert.throws(() => (all as Lease).fence);
      assertLarger(inTheWay.fence, all.fenceOf(b));
      for (const key of [a, b, c]) assert.equal(await one.tryAcquire(key), null);
      assert.equal(await all.release(), true);
      for (const key of [a, b, c]) required(await one.tryAcquire(key), key);
    },
  },
  {
    id: "api/several-crossed",
    sentence: "many who want the same keys in different orders all come through",
    promises: ["P9", "P11"],
    level: "api",
    needs: [],
    async run(ctx) {
      const all = [await ctx.locks(), await ctx.locks(), await ctx.locks()];
      const keys = [ctx.key("a"), ctx.key("b"), ctx.key("c")];
      const inside = new Set<string>();
      const task = async (i: number): Promise<void> => {
        const wanted = [keys[i % 3], keys[(i + 1 + (i % 2)) % 3]] as string[];
        const section = async (lease: MultiLease): Promise<void> => {
          lease.assertHeld();
          for (const key of wanted) assert.ok(!inside.has(key), `${key} was held twice`);
          for (const key of wanted) inside.add(key);
          await sleep(2);
          for (const key of wanted) inside.delete(key);
        };
        const locks = required(all[i % 3], "the locks");
        await ctx.unlessStalled(() => locks.using(wanted, { wait: LONG_WAIT_MS }, section));
      };
      await Promise.all(Array.from({ length: 18 }, (_none, i) => task(i)));
    },
  },
  {
    id: "api/once",
    sentence: "once runs on one of many replicas and keeps the key taken for at least as long as asked",
    promises: ["P1", "P10"],
    level: "api",
    needs: [kind("keep")],
    async run(ctx) {
      const replicas = [await ctx.locks(), await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const sinceMs = ctx.nowMs();
      const once = (locks: (typeof replicas)[0]): ReturnType<typeof locks.once<number>> =>
        locks.once(key, { atLeast: KEPT_MS }, () => 7);
      const results = await Promise.all(replicas.map(once));
      assert.deepEqual(
        results.filter(({ ran }) => ran),
        [{ ran: true, result: 7 }],
      );
      for (;;) {
        const { ran } = await once(required(replicas[1], "a replica"));
        const elapsedMs = ctx.nowMs() - sinceMs;
        if (ran) {
          assert.ok(elapsedMs >= KEPT_MS, `it ran again after ${elapsedMs} ms`);
          return;
        }
        assert.ok(elapsedMs <= KEPT_MS + ctx.slackMs, "it never ran again");
        await sleep(20);
      }
    },
  },
  {
    id: "api/unsupported",
    sentence: "what the store does not declare is refused by name",
    promises: ["P17"],
    level: "api",
    needs: [lacksAKind],
    async run(ctx) {
      const locks = await ctx.locks();
      const key = ctx.key();
      const lacks = (name: Kind): boolean => !ctx.guarantees.kinds.includes(name);
      if (lacks("shared")) await rejectsWith("ERR_LOCK_UNSUPPORTED", locks.acquire(key, { mode: "shared" }));
      if (lacks("semaphore")) await rejectsWith("ERR_LOCK_UNSUPPORTED", locks.acquire(key, { limit: 2 }));
      if (lacks("keep"))
        await rejectsWith(
          "ERR_LOCK_UNSUPPORTED",
          locks.once(key, { atLeast: 100 }, () => 1),
        );
    },
  },
];

// Semaphores: permits never add up to more than the limit, and a large request is not starved by small ones.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { fifo, kind, leases } from "../needs.ts";

export const semaphoreCases: readonly ContractCase[] = [
  {
    id: "semaphores/limit",
    sentence: "as many permits as the limit are given out, and not one more",
    promises: ["P1"],
    level: "contract",
    needs: [kind("semaphore")],
    async run(ctx) {
      const stores = [await ctx.open(), await ctx.open()] as const;
      const key = ctx.key();
      const party = (label: string, permits: number, i: number): ReturnType<typeof ctx.party> =>
        ctx.party(stores[i % 2] ?? stores[0], key, { label, permits, limit: 3, queue: false });
      const [a, b, c] = [party("a", 1, 0), party("b", 2, 1), party("c", 1, 0)];
      assert.equal((await a.take()).reservedFences, 0, "only a lone holder may number its own hand-offs");
      await b.take();
      await c.refused();
      await a.release();
      await party("d", 2, 1).refused();
      await c.take();
      assert.equal((await ctx.inspect(stores[0], key))?.limit, 3);
      await party("e", 1, 1).refused();
    },
  },
  {
    id: "semaphores/expiry",
    sentence: "the permits of a holder that vanished come back",
    promises: ["P1", "P10"],
    level: "contract",
    needs: [kind("semaphore"), leases],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const ttlMs = ctx.shortTtlMs;
      const gone = ctx.party(store, key, { label: "gone", permits: 2, limit: 3, ttlMs });
      const stays = ctx.party(store, key, { label: "stays", limit: 3 });
      const next = ctx.party(store, key, { label: "next", permits: 2, limit: 3 });
      await gone.take();
      await stays.take();
      await next.refused();
      await ctx.first([next], ttlMs + gone.request.graceMs);
      assert.ok(ctx.nowMs() >= gone.endsAtMs(), "more permits were out than there are");
      assert.deepEqual([await gone.owns(), await stays.owns()], [false, true]);
    },
  },
  {
    id: "semaphores/large-request",
    sentence: "a small request does not overtake a large one that waits",
    promises: ["P12"],
    level: "contract",
    needs: [kind("semaphore"), fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const holder = ctx.party(one, key, { label: "holder", permits: 2, limit: 3 });
      const large = ctx.party(two, key, { label: "large", permits: 3, limit: 3 });
      const small = ctx.party(one, key, { label: "small", permits: 1, limit: 3 });
      await holder.take();
      await large.refused();
      await small.refused();
      await holder.release();
      assert.equal((await ctx.first([small, large], ctx.guarantees.pollMs)).request.label, "large");
      await large.release();
      await small.take();
    },
  },
  {
    id: "semaphores/limits",
    sentence: "callers may name different limits, and each is granted within its own",
    promises: ["P1"],
    level: "contract",
    needs: [kind("semaphore")],
    async run(ctx) {
      const stores = [await ctx.open(), await ctx.open()] as const;
      const key = ctx.key();
      const party = (limit: number, permits = 1): ReturnType<typeof ctx.party> =>
        ctx.party(stores[limit % 2] ?? stores[0], key, {
          label: `limit ${limit}`,
          limit,
          permits,
          queue: false,
        });
      const [three, five, six] = [party(3), party(5, 4), party(6)];
      await three.take();
      await party(5, 5).refused();
      await five.take();
      assert.equal((await ctx.inspect(stores[0], key))?.limit, 5);
      await party(3).refused();
      await six.take();
      await party(6).refused();
      await six.release();
      await five.release();
      const two = party(2);
      await two.take();
      await party(2).refused();
      await two.release();
      await three.release();
      assert.equal(await ctx.inspect(stores[0], key), null);
    },
  },
  {
    id: "semaphores/busy",
    sentence: "a busy answer shows at most three of many holders",
    promises: ["P17", "P21"],
    level: "contract",
    needs: [kind("semaphore")],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      for (let i = 0; i < 5; i += 1) await ctx.party(store, key, { label: `holder ${i}`, limit: 5 }).take();
      const busy = await ctx.party(store, key, { label: "try", limit: 5, queue: false }).refused();
      assert.ok((busy.holders?.length ?? 0) <= 3, `${busy.holders?.length} holders are shown`);
      if (busy.holderCount !== undefined) assert.equal(busy.holderCount, 5);
    },
  },
  {
    id: "semaphores/lock",
    sentence: "a lock and a semaphore on one key exclude each other",
    promises: ["P1", "P11"],
    level: "contract",
    needs: [kind("semaphore")],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const permit = ctx.party(one, key, { label: "permit", limit: 3 });
      await permit.take();
      await ctx.party(two, key, { label: "try", queue: false }).refused();
      const lock = ctx.party(two, key, { label: "lock" });
      await lock.refused();
      await permit.release();
      await ctx.first([lock], ctx.guarantees.pollMs);
      await ctx.party(one, key, { label: "try", limit: 3, queue: false }).refused();
      assert.equal((await ctx.inspect(two, key))?.limit, 1);
      const next = ctx.party(one, key, { label: "next", limit: 4 });
      await next.refused();
      const info = await ctx.inspect(two, key);
      // Where places are not kept nobody knows who waits.
      assert.equal(info?.limit, info?.waiters === null ? 1 : 4);
      await lock.release();
      await ctx.first([next], ctx.guarantees.pollMs);
    },
  },
];

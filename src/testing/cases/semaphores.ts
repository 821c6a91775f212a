// Semaphores: permits never add up to more than the limit, and a large request is not starved by small ones.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { fifo, kind, leases } from "../requirements.ts";

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
      const client = (label: string, permits: number, i: number): ReturnType<typeof ctx.client> =>
        ctx.client(stores[i % 2] ?? stores[0], key, { label, permits, limit: 3, queue: false });
      const [a, b, c] = [client("a", 1, 0), client("b", 2, 1), client("c", 1, 0)];
      assert.equal((await a.acquire()).reservedFences, 0, "only a lone holder may number its own hand-offs");
      await b.acquire();
      await c.expectBusy();
      await a.release();
      await client("d", 2, 1).expectBusy();
      await c.acquire();
      assert.equal((await ctx.inspect(stores[0], key))?.limit, 3);
      await client("e", 1, 1).expectBusy();
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
      const gone = ctx.client(store, key, { label: "gone", permits: 2, limit: 3, ttlMs });
      const stays = ctx.client(store, key, { label: "stays", limit: 3 });
      const next = ctx.client(store, key, { label: "next", permits: 2, limit: 3 });
      await gone.acquire();
      await stays.acquire();
      await next.expectBusy();
      await ctx.firstGranted([next], ttlMs + gone.request.graceMs);
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
      const holder = ctx.client(one, key, { label: "holder", permits: 2, limit: 3 });
      const large = ctx.client(two, key, { label: "large", permits: 3, limit: 3 });
      const small = ctx.client(one, key, { label: "small", permits: 1, limit: 3 });
      await holder.acquire();
      await large.expectBusy();
      await small.expectBusy();
      await holder.release();
      assert.equal((await ctx.firstGranted([small, large], ctx.guarantees.pollMs)).request.label, "large");
      await large.release();
      await small.acquire();
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
      const client = (limit: number, permits = 1): ReturnType<typeof ctx.client> =>
        ctx.client(stores[limit % 2] ?? stores[0], key, {
          label: `limit ${limit}`,
          limit,
          permits,
          queue: false,
        });
      const [three, five, six] = [client(3), client(5, 4), client(6)];
      await three.acquire();
      await client(5, 5).expectBusy();
      await five.acquire();
      assert.equal((await ctx.inspect(stores[0], key))?.limit, 5);
      await client(3).expectBusy();
      await six.acquire();
      await client(6).expectBusy();
      await six.release();
      await five.release();
      const two = client(2);
      await two.acquire();
      await client(2).expectBusy();
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
      for (let i = 0; i < 5; i += 1)
        await ctx.client(store, key, { label: `holder ${i}`, limit: 5 }).acquire();
      const busy = await ctx.client(store, key, { label: "try", limit: 5, queue: false }).expectBusy();
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
      const permit = ctx.client(one, key, { label: "permit", limit: 3 });
      await permit.acquire();
      await ctx.client(two, key, { label: "try", queue: false }).expectBusy();
      const lock = ctx.client(two, key, { label: "lock" });
      await lock.expectBusy();
      await permit.release();
      await ctx.firstGranted([lock], ctx.guarantees.pollMs);
      await ctx.client(one, key, { label: "try", limit: 3, queue: false }).expectBusy();
      assert.equal((await ctx.inspect(two, key))?.limit, 1);
      const next = ctx.client(one, key, { label: "next", limit: 4 });
      await next.expectBusy();
      const info = await ctx.inspect(two, key);
      // Where places are not kept nobody knows who waits.
      assert.equal(info?.limit, info?.waiters === null ? 1 : 4);
      await lock.release();
      await ctx.firstGranted([next], ctx.guarantees.pollMs);
    },
  },
];

// Several keys in one step: all of them or none, whoever is in the way and however it ends (P9).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { assertLarger } from "../checks.ts";
import { kind, leases } from "../requirements.ts";

export const severalCases: readonly ContractCase[] = [
  {
    id: "several/none",
    sentence: "where one of several keys is busy none of them is taken",
    promises: ["P9"],
    level: "contract",
    needs: [kind("multi")],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      for (const busy of [0, 1, 2]) {
        const keys = [ctx.key("a"), ctx.key("b"), ctx.key("c")];
        await ctx.client(one, keys[busy] as string, { label: "in the way" }).acquire();
        await ctx.client(two, keys, { label: "all", queue: false }).expectBusy();
        for (const key of keys) {
          const single = ctx.client(one, key, { label: "single", queue: false });
          if (key === keys[busy]) await single.expectBusy();
          else await single.acquire();
        }
      }
    },
  },
  {
    id: "several/all",
    sentence: "a grant of several keys has one fence per key in their order, and one release frees them all",
    promises: ["P3", "P9"],
    level: "contract",
    needs: [kind("multi")],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const keys = [ctx.key("a"), ctx.key("b"), ctx.key("c")];
      const all = ctx.client(one, keys, { label: "all" });
      const grant = await all.acquire();
      assert.equal(grant.fences.length, 3);
      for (const [i, key] of keys.entries()) {
        assert.equal((await ctx.inspect(two, key))?.holders[0]?.fence, grant.fences[i]);
        await ctx.client(two, key, { queue: false }).expectBusy();
      }
      assert.equal(await all.owns(), true);
      assert.equal(
        await all.release(grant.fences.map((fence) => fence + BigInt(grant.reservedFences))),
        "released",
      );
      for (const [i, key] of keys.entries()) {
        const single = ctx.client(two, key, { label: "single" });
        await single.acquire();
        assertLarger((grant.fences[i] as bigint) + BigInt(grant.reservedFences), single.fence);
      }
    },
  },
  {
    id: "several/waits",
    sentence: "a waiter for several keys gets them together once the last one is free, and never a part",
    promises: ["P9", "P11"],
    level: "contract",
    needs: [kind("multi")],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const keys = [ctx.key("a"), ctx.key("b")] as const;
      const holders = keys.map((key) => ctx.client(one, key, { label: `holder of ${key}` }));
      const both = ctx.client(two, keys, { label: "both" });
      for (const holder of holders) await holder.acquire();
      await both.expectBusy();
      await holders[0]?.release();
      await both.expectBusy();
      assert.deepEqual((await ctx.inspect(one, keys[0]))?.holders ?? [], [], "half of it was granted");
      await holders[1]?.release();
      await ctx.firstGranted([both], ctx.guarantees.pollMs);
      for (const key of keys) assert.equal((await ctx.inspect(one, key))?.holders[0]?.label, "both");
    },
  },
  {
    id: "several/abandon",
    sentence: "abandoning a waiter or a holder of several keys leaves none of them taken",
    promises: ["P8", "P9"],
    level: "contract",
    needs: [kind("multi")],
    async run(ctx) {
      const store = await ctx.open();
      const keys = [ctx.key("a"), ctx.key("b")] as const;
      const holder = ctx.client(store, keys[1], { label: "holder" });
      const waiter = ctx.client(store, keys, { label: "waiter" });
      const single = ctx.client(store, keys[0], { label: "single" });
      await holder.acquire();
      await waiter.expectBusy();
      await waiter.abandon();
      await waiter.expectEnded();
      await single.acquire();
      await single.release();
      await holder.release();
      const both = ctx.client(store, keys, { label: "both" });
      await both.acquire();
      await both.abandon();
      for (const key of keys) assert.equal(await ctx.inspect(store, key), null);
    },
  },
  {
    id: "several/expiry",
    sentence: "several keys of a holder that vanished are all free again, and its late renewal is lost",
    promises: ["P6", "P9", "P10"],
    level: "contract",
    needs: [kind("multi"), leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const keys = [ctx.key("a"), ctx.key("b")] as const;
      const gone = ctx.client(one, keys, { label: "gone", ttlMs: 200 });
      await gone.acquire();
      await ctx.expire(gone);
      const single = ctx.client(two, keys[1], { label: "single" });
      await single.acquire();
      assert.equal((await gone.renew()).state, "lost");
      assert.equal(await gone.release(), "not-held");
      assert.equal(await single.owns(), true);
      assert.equal(await ctx.inspect(two, keys[0]), null);
    },
  },
  {
    id: "several/ring",
    sentence: "requests for overlapping keys all come through, one after the other",
    promises: ["P9", "P11"],
    level: "contract",
    needs: [kind("multi")],
    async run(ctx) {
      const stores = [await ctx.open(), await ctx.open(), await ctx.open()];
      const [a, b, c] = [ctx.key("a"), ctx.key("b"), ctx.key("c")] as const;
      const pairs = [
        [a, b],
        [b, c],
        [a, c],
      ] as const;
      let waiting = pairs.map((keys, i) =>
        ctx.client(stores[i] as (typeof stores)[0], keys, { label: keys.join("+") }),
      );
      while (waiting.length > 0) {
        const next = await ctx.firstGranted(waiting, ctx.guarantees.claimMs * 3);
        assert.equal(next.fences.length, 2);
        await next.release();
        waiting = waiting.filter((client) => client !== next);
      }
    },
  },
];

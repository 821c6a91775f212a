// Nothing left: what was released, abandoned or closed leaves neither holder nor waiter, and one fence record per name (P16).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { arrives, sleep } from "../io.ts";
import { fifo, pushes } from "../needs.ts";

export const hygieneCases: readonly ContractCase[] = [
  {
    id: "hygiene/nothing-left",
    sentence: "after releases and abandons nothing is listed any more",
    promises: ["P16"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      for (let i = 0; i < 20; i += 1) {
        const key = ctx.key();
        const a = ctx.party(one, key);
        const b = ctx.party(two, key);
        await a.take();
        await b.refused();
        if (i % 2 === 0) await b.abandon();
        await a.release();
        if (i % 2 === 1) await (await b.take(), b.release());
      }
      assert.deepEqual(await ctx.list(one), []);
    },
  },
  {
    id: "hygiene/memory-per-name",
    sentence: "many turns on one name leave one record of it",
    promises: ["P16"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const turn = async (): Promise<void> => {
        const a = ctx.party(one, key);
        const b = ctx.party(two, key);
        await a.take();
        await b.refused();
        await a.release();
        await b.abandon();
      };
      await turn();
      const before = await ctx.footprint();
      for (let i = 0; i < 50; i += 1) await turn();
      assert.equal(await ctx.inspect(one, key), null);
      const after = await ctx.footprint();
      if (before !== null && after !== null)
        assert.ok(after <= before, `${after} records instead of ${before}`);
    },
  },
  {
    id: "hygiene/close-alone",
    sentence: "closing one opened store leaves the locks of the others alone",
    promises: ["P1", "P16"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const a = ctx.party(one, ctx.key(), { label: "a" });
      const b = ctx.party(two, ctx.key(), { label: "b" });
      await a.take();
      await b.take();
      await b.release();
      await ctx.close(two);
      assert.equal(await a.owns(), true);
      const third = ctx.party(await ctx.open(), a.request.keys, { label: "third", queue: false });
      await third.refused();
      assert.equal(await a.release(), "released");
      await third.take();
    },
  },
  {
    id: "hygiene/closed-waiter",
    sentence: "a waiter whose store was closed delays the line by at most one claim window",
    promises: ["P12", "P16"],
    level: "contract",
    needs: [fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.party(one, key, { label: "a" });
      const closed = ctx.party(two, key, { label: "closed" });
      const next = ctx.party(one, key, { label: "next" });
      await a.take();
      await closed.refused();
      await next.refused();
      await ctx.close(two);
      await a.release();
      await ctx.first([next], ctx.guarantees.claimMs + closed.request.graceMs);
    },
  },
  {
    id: "hygiene/unsubscribed",
    sentence: "a waiter that stopped listening hears nothing more",
    promises: ["P16"],
    level: "contract",
    needs: [pushes],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.party(one, key, { label: "a" });
      const deaf = ctx.party(two, key, { label: "deaf" });
      const control = ctx.party(two, key, { label: "control" });
      await a.take();
      await deaf.refused();
      const stop = await two.subscribe?.(deaf.request, () => (deaf.notifications += 1));
      stop?.();
      await a.release();
      await deaf.take();
      await control.refused();
      await control.listen();
      await control.refused();
      await deaf.release();
      await arrives("the notification of the next", () => control.notifications > 0);
      await sleep(20);
      assert.equal(deaf.notifications, 0);
    },
  },
];

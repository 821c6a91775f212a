// Nothing left: what was released, abandoned or closed leaves neither holder nor waiter, and one fence
// record per name (P16).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { waitFor, sleep } from "../io.ts";
import { fifo, pushes } from "../requirements.ts";

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
        const a = ctx.client(one, key);
        const b = ctx.client(two, key);
        await a.acquire();
        await b.expectBusy();
        if (i % 2 === 0) await b.abandon();
        await a.release();
        if (i % 2 === 1) await (await b.acquire(), b.release());
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
        const a = ctx.client(one, key);
        const b = ctx.client(two, key);
        await a.acquire();
        await b.expectBusy();
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
      const a = ctx.client(one, ctx.key(), { label: "a" });
      const b = ctx.client(two, ctx.key(), { label: "b" });
      await a.acquire();
      await b.acquire();
      await b.release();
      await ctx.close(two);
      assert.equal(await a.owns(), true);
      const third = ctx.client(await ctx.open(), a.request.keys, { label: "third", queue: false });
      await third.expectBusy();
      assert.equal(await a.release(), "released");
      await third.acquire();
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
      const a = ctx.client(one, key, { label: "a" });
      const closed = ctx.client(two, key, { label: "closed" });
      const next = ctx.client(one, key, { label: "next" });
      await a.acquire();
      await closed.expectBusy();
      await next.expectBusy();
      await ctx.close(two);
      await a.release();
      await ctx.firstGranted([next], ctx.guarantees.claimMs + closed.request.graceMs);
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
      const a = ctx.client(one, key, { label: "a" });
      const deaf = ctx.client(two, key, { label: "deaf" });
      const control = ctx.client(two, key, { label: "control" });
      await a.acquire();
      await deaf.expectBusy();
      const stop = await two.subscribe?.(deaf.request, () => (deaf.notifications += 1));
      stop?.();
      await a.release();
      await deaf.acquire();
      await control.expectBusy();
      await control.listen();
      await control.expectBusy();
      await deaf.release();
      await waitFor("the notification of the next", () => control.notifications > 0);
      await sleep(20);
      assert.equal(deaf.notifications, 0);
    },
  },
];

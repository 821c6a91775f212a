// Waking up: a waiter learns that it is its turn, by a notification where the store has them, by its
// heartbeat in any case.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { assertLarger } from "../checks.ts";
import { waitFor, sleep } from "../io.ts";
import { fifo, leases, pushes } from "../requirements.ts";

/** Long enough in real time for a push that should not come. */
const QUIET_MS = 60;

export const wakeCases: readonly ContractCase[] = [
  {
    id: "wakes/without-push",
    sentence: "a waiter that hears no push is granted by its next heartbeat",
    promises: ["P11"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      const { againMs } = await b.expectBusy();
      assert.ok(againMs > 0, "the store says when to look again");
      assert.ok(againMs <= ctx.guarantees.pollMs, "the heartbeat keeps the declared bound");
      await a.release();
      await ctx.firstGranted([b], ctx.guarantees.pollMs);
    },
  },
  {
    id: "wakes/by-push",
    sentence: "a release wakes the waiter who is next, and leads it to a grant",
    promises: ["P11"],
    level: "contract",
    needs: [pushes],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      await b.expectBusy();
      await b.listen();
      await b.expectBusy();
      await a.release();
      await waitFor("the notification", () => b.notifications > 0);
      await b.acquire();
      assertLarger(a.fence, b.fence);
    },
  },
  {
    id: "wakes/full-ttl",
    sentence: "a waiter that was chosen gets its full ttl by its own next attempt",
    promises: ["P2", "P12"],
    level: "contract",
    needs: [pushes, leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b", ttlMs: 60_000 });
      const c = ctx.client(one, key, { label: "c", queue: false });
      await a.acquire();
      await b.listen();
      await b.expectBusy();
      await a.release();
      await waitFor("the notification", () => b.notifications > 0);
      await b.acquire();
      const longestMs = ctx.guarantees.longestMs ?? Number.POSITIVE_INFINITY;
      assert.ok(
        (b.grant?.validMs ?? 0) >= Math.min(b.request.ttlMs, longestMs),
        "the grant is shorter than its ttl",
      );
      await ctx.pass(ctx.guarantees.claimMs * 1.5 + b.request.graceMs);
      await c.expectBusy();
      assert.equal(await b.owns(), true);
    },
  },
  {
    id: "wakes/no-herd",
    sentence: "one release wakes one waiter",
    promises: ["P14"],
    level: "contract",
    needs: [pushes, fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const holder = ctx.client(one, key, { label: "holder" });
      const waiters = [0, 1, 2].map((i) => ctx.client(two, key, { label: `waiter ${i}` }));
      await holder.acquire();
      for (const waiter of waiters) {
        await waiter.listen();
        await waiter.expectBusy();
      }
      await holder.release();
      await waitFor("the notification", () => waiters.some((waiter) => waiter.notifications > 0));
      await sleep(QUIET_MS);
      assert.deepEqual(
        waiters.map((waiter) => waiter.notifications > 0),
        [true, false, false],
      );
    },
  },
];

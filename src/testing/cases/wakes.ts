// Waking up: a waiter learns that it is its turn, by a notification where the store has them, by its heartbeat in any case.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { grew } from "../checks.ts";
import { arrives, sleep } from "../io.ts";
import { fifo, leases, pushes } from "../needs.ts";

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
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b" });
      await a.take();
      const { againMs } = await b.refused();
      assert.ok(againMs > 0, "the store says when to look again");
      assert.ok(againMs <= ctx.guarantees.pollMs, "the heartbeat keeps the declared bound");
      await a.release();
      await ctx.first([b], ctx.guarantees.pollMs);
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
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b" });
      await a.take();
      await b.refused();
      await b.listen();
      await b.refused();
      await a.release();
      await arrives("the notification", () => b.notifications > 0);
      await b.take();
      grew(a.fence, b.fence);
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
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b", ttlMs: 60_000 });
      const c = ctx.party(one, key, { label: "c", queue: false });
      await a.take();
      await b.listen();
      await b.refused();
      await a.release();
      await arrives("the notification", () => b.notifications > 0);
      await b.take();
      const longestMs = ctx.guarantees.longestMs ?? Number.POSITIVE_INFINITY;
      assert.ok(
        (b.grant?.validMs ?? 0) >= Math.min(b.request.ttlMs, longestMs),
        "the grant is shorter than its ttl",
      );
      await ctx.pass(ctx.guarantees.claimMs * 1.5 + b.request.graceMs);
      await c.refused();
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
      const holder = ctx.party(one, key, { label: "holder" });
      const waiters = [0, 1, 2].map((i) => ctx.party(two, key, { label: `waiter ${i}` }));
      await holder.take();
      for (const waiter of waiters) {
        await waiter.listen();
        await waiter.refused();
      }
      await holder.release();
      await arrives("the notification", () => waiters.some((waiter) => waiter.notifications > 0));
      await sleep(QUIET_MS);
      assert.deepEqual(
        waiters.map((waiter) => waiter.notifications > 0),
        [true, false, false],
      );
    },
  },
];

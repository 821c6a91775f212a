// The line: who waits is served in order, keeps its place while it lives, and cannot hold the others up
// when it is silent.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { assertLarger } from "../checks.ts";
import type { TestClient } from "../test-client.ts";
import { fifo, leases } from "../requirements.ts";

/**
 * A silent waiter loses its place only after several claim windows; virtual time can afford to look that
 * far.
 */
const MANY_CLAIMS = 8;

export const orderCases: readonly ContractCase[] = [
  {
    id: "order/fifo",
    sentence: "grants follow the order in which the waiters were acknowledged",
    promises: ["P12"],
    level: "contract",
    needs: [fifo],
    async run(ctx) {
      const stores = [await ctx.open(), await ctx.open()] as const;
      const key = ctx.key();
      const holder = ctx.client(stores[0], key, { label: "holder" });
      await holder.acquire();
      const line: TestClient[] = [];
      for (let i = 0; i < 5; i += 1) {
        const waiter = ctx.client(stores[i % 2] ?? stores[0], key, { label: `waiter ${i}` });
        await waiter.expectBusy();
        line.push(waiter);
      }
      await holder.release();
      for (const expected of line) {
        // The last asks first: only a place in line can put the others before it.
        const waiting = line.slice(line.indexOf(expected)).reverse();
        const next = await ctx.firstGranted(waiting, ctx.guarantees.pollMs);
        assert.equal(next.request.label, expected.request.label);
        await next.release();
      }
    },
  },
  {
    id: "order/place-kept",
    sentence: "a waiter that beats keeps its place, however long it waits",
    promises: ["P12"],
    level: "contract",
    needs: [fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const holder = ctx.client(one, key, { label: "holder", ttlMs: 120_000 });
      const early = ctx.client(one, key, { label: "early" });
      const late = ctx.client(two, key, { label: "late" });
      await holder.acquire();
      await early.expectBusy();
      await late.expectBusy();
      await ctx.heartbeat([late, early], ctx.guarantees.claimMs * (ctx.virtual === null ? 1.5 : MANY_CLAIMS));
      await holder.release();
      assert.equal((await ctx.firstGranted([late, early], ctx.guarantees.pollMs)).request.label, "early");
    },
  },
  {
    id: "order/no-overtaking",
    sentence: "whoever comes after a release does not overtake the waiter who was there before",
    promises: ["P12"],
    level: "contract",
    needs: [fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const holder = ctx.client(one, key, { label: "holder" });
      const patient = ctx.client(two, key, { label: "patient" });
      const hasty = ctx.client(one, key, { label: "hasty", queue: false });
      await holder.acquire();
      await patient.expectBusy();
      await holder.release();
      await hasty.expectBusy();
      await patient.acquire();
    },
  },
  {
    id: "order/silent-waiter",
    sentence: "a chosen waiter that stays silent is passed over after one claim window",
    promises: ["P1", "P12"],
    level: "contract",
    needs: [fifo, leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const holder = ctx.client(one, key, { label: "holder" });
      const silent = ctx.client(two, key, { label: "silent", ttlMs: 60_000 });
      const next = ctx.client(one, key, { label: "next" });
      await holder.acquire();
      await silent.listen();
      await silent.expectBusy();
      await next.expectBusy();
      await ctx.pass(ctx.guarantees.claimMs / 10);
      await holder.release();
      await ctx.firstGranted([next], ctx.guarantees.claimMs + silent.request.graceMs);
      assertLarger(holder.fence, next.fence);
      assert.equal(await silent.owns(), false);
    },
  },
  {
    id: "order/stale-waiters",
    sentence:
      "waiters that went silent long before the release delay the line by at most one claim window each",
    promises: ["P12"],
    level: "contract",
    needs: [fifo, leases],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const holder = ctx.client(store, key, { label: "holder", ttlMs: 120_000 });
      await holder.acquire();
      for (let i = 0; i < 3; i += 1) await ctx.client(store, key, { label: `silent ${i}` }).expectBusy();
      const next = ctx.client(store, key, { label: "next" });
      await next.expectBusy();
      await ctx.heartbeat([next], ctx.guarantees.claimMs * 1.2);
      await holder.release();
      await ctx.firstGranted([next], 3 * (ctx.guarantees.claimMs + 50));
    },
  },
  {
    id: "order/abandoned-choice",
    sentence: "abandoning an id that had just been chosen passes the key on at once",
    promises: ["P8", "P12"],
    level: "contract",
    needs: [fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const holder = ctx.client(one, key, { label: "holder" });
      const chosen = ctx.client(two, key, { label: "chosen", ttlMs: 60_000 });
      const next = ctx.client(one, key, { label: "next" });
      await holder.acquire();
      await chosen.expectBusy();
      await next.expectBusy();
      await holder.release();
      await chosen.abandon();
      await next.acquire();
      await chosen.expectEnded();
    },
  },
];

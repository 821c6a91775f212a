// The line: who waits is served in order, keeps its place while it lives, and cannot hold the others up when it is silent.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { grew } from "../checks.ts";
import type { Party } from "../party.ts";
import { fifo, leases } from "../needs.ts";

/** A silent waiter loses its place only after several claim windows; virtual time can afford to look that far. */
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
      const holder = ctx.party(stores[0], key, { label: "holder" });
      await holder.take();
      const line: Party[] = [];
      for (let i = 0; i < 5; i += 1) {
        const waiter = ctx.party(stores[i % 2] ?? stores[0], key, { label: `waiter ${i}` });
        await waiter.refused();
        line.push(waiter);
      }
      await holder.release();
      for (const expected of line) {
        // The last asks first: only a place in line can put the others before it.
        const waiting = line.slice(line.indexOf(expected)).reverse();
        const next = await ctx.first(waiting, ctx.guarantees.pollMs);
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
      const holder = ctx.party(one, key, { label: "holder", ttlMs: 120_000 });
      const early = ctx.party(one, key, { label: "early" });
      const late = ctx.party(two, key, { label: "late" });
      await holder.take();
      await early.refused();
      await late.refused();
      await ctx.beat([late, early], ctx.guarantees.claimMs * (ctx.virtual === null ? 1.5 : MANY_CLAIMS));
      await holder.release();
      assert.equal((await ctx.first([late, early], ctx.guarantees.pollMs)).request.label, "early");
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
      const holder = ctx.party(one, key, { label: "holder" });
      const patient = ctx.party(two, key, { label: "patient" });
      const hasty = ctx.party(one, key, { label: "hasty", queue: false });
      await holder.take();
      await patient.refused();
      await holder.release();
      await hasty.refused();
      await patient.take();
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
      const holder = ctx.party(one, key, { label: "holder" });
      const silent = ctx.party(two, key, { label: "silent", ttlMs: 60_000 });
      const next = ctx.party(one, key, { label: "next" });
      await holder.take();
      await silent.listen();
      await silent.refused();
      await next.refused();
      await ctx.pass(ctx.guarantees.claimMs / 10);
      await holder.release();
      await ctx.first([next], ctx.guarantees.claimMs + silent.request.graceMs);
      grew(holder.fence, next.fence);
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
      const holder = ctx.party(store, key, { label: "holder", ttlMs: 120_000 });
      await holder.take();
      for (let i = 0; i < 3; i += 1) await ctx.party(store, key, { label: `silent ${i}` }).refused();
      const next = ctx.party(store, key, { label: "next" });
      await next.refused();
      await ctx.beat([next], ctx.guarantees.claimMs * 1.2);
      await holder.release();
      await ctx.first([next], 3 * (ctx.guarantees.claimMs + 50));
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
      const holder = ctx.party(one, key, { label: "holder" });
      const chosen = ctx.party(two, key, { label: "chosen", ttlMs: 60_000 });
      const next = ctx.party(one, key, { label: "next" });
      await holder.take();
      await chosen.refused();
      await next.refused();
      await holder.release();
      await chosen.abandon();
      await next.take();
      await chosen.ended();
    },
  },
];

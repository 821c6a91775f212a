// Exclusion and ownership: one holder at a time, and nobody but the owner can end a grant.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { leases } from "../needs.ts";

export const exclusionCases: readonly ContractCase[] = [
  {
    id: "exclusion/second-owner",
    sentence: "a second owner is refused while the lease lives, and granted once it was released",
    promises: ["P1"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b" });
      const sameStore = ctx.party(one, key, { label: "c", queue: false });
      await a.take();
      await b.refused();
      await sameStore.refused();
      assert.equal(await a.owns(), true);
      assert.equal(await b.owns(), false);
      assert.equal(await a.release(), "released");
      await b.take();
      await sameStore.refused();
      assert.equal(await a.owns(), false);
    },
  },
  {
    id: "exclusion/foreign-release",
    sentence: "a release by an id that does not hold is not-held and frees nobody",
    promises: ["P5"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.party(store, key, { label: "a" });
      const stranger = ctx.party(store, key, { label: "stranger", queue: false });
      const third = ctx.party(store, key, { label: "third", queue: false });
      await a.take();
      await stranger.refused();
      stranger.grant = a.grant;
      assert.equal(await stranger.release(), "not-held");
      await third.refused();
      assert.equal(await a.owns(), true);
    },
  },
  {
    id: "exclusion/foreign-renewal",
    sentence: "a renewal by an id that does not hold is lost and changes nothing",
    promises: ["P5", "P6"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.party(store, key, { label: "a" });
      const stranger = ctx.party(store, key, { label: "stranger", queue: false });
      await a.take();
      await stranger.refused();
      stranger.grant = a.grant;
      assert.equal((await stranger.renew()).state, "lost");
      assert.equal(await stranger.owns(), false);
      assert.equal(await a.owns(), true);
    },
  },
  {
    id: "exclusion/stale-release",
    sentence: "a stale release is not-held and does not free the successor",
    promises: ["P5"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.party(one, key, { label: "a", ttlMs: 200 });
      const b = ctx.party(two, key, { label: "b" });
      const c = ctx.party(two, key, { label: "c", queue: false });
      await a.take();
      await ctx.expire(a);
      await b.take();
      assert.equal(await a.release(), "not-held");
      assert.equal(await b.owns(), true);
      await c.refused();
    },
  },
  {
    id: "exclusion/release-twice",
    sentence: "a release that is repeated is not-held the second time and does not free the successor",
    promises: ["P5", "P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.party(store, key, { label: "a" });
      const b = ctx.party(store, key, { label: "b" });
      await a.take();
      assert.equal(await a.release(), "released");
      await b.take();
      assert.equal(await a.release(), "not-held");
      assert.equal(await b.owns(), true);
    },
  },
];

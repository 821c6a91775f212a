// Exclusion and ownership: one holder at a time, and nobody but the owner can end a grant.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { leases } from "../requirements.ts";

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
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      const sameStore = ctx.client(one, key, { label: "c", queue: false });
      await a.acquire();
      await b.expectBusy();
      await sameStore.expectBusy();
      assert.equal(await a.owns(), true);
      assert.equal(await b.owns(), false);
      assert.equal(await a.release(), "released");
      await b.acquire();
      await sameStore.expectBusy();
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
      const a = ctx.client(store, key, { label: "a" });
      const stranger = ctx.client(store, key, { label: "stranger", queue: false });
      const third = ctx.client(store, key, { label: "third", queue: false });
      await a.acquire();
      await stranger.expectBusy();
      stranger.grant = a.grant;
      assert.equal(await stranger.release(), "not-held");
      await third.expectBusy();
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
      const a = ctx.client(store, key, { label: "a" });
      const stranger = ctx.client(store, key, { label: "stranger", queue: false });
      await a.acquire();
      await stranger.expectBusy();
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
      const a = ctx.client(one, key, { label: "a", ttlMs: 200 });
      const b = ctx.client(two, key, { label: "b" });
      const c = ctx.client(two, key, { label: "c", queue: false });
      await a.acquire();
      await ctx.expire(a);
      await b.acquire();
      assert.equal(await a.release(), "not-held");
      assert.equal(await b.owns(), true);
      await c.expectBusy();
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
      const a = ctx.client(store, key, { label: "a" });
      const b = ctx.client(store, key, { label: "b" });
      await a.acquire();
      assert.equal(await a.release(), "released");
      await b.acquire();
      assert.equal(await a.release(), "not-held");
      assert.equal(await b.owns(), true);
    },
  },
];

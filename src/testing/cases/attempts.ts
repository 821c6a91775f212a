// Attempts that are repeated, given up or late. A reply can be lost, so the same id may ask again at any
// time (P8).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { makeIo } from "../io.ts";
import { leases } from "../requirements.ts";

export const attemptCases: readonly ContractCase[] = [
  {
    id: "attempts/idempotent",
    sentence: "an id that holds and asks again keeps its fence",
    promises: ["P3", "P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const a = ctx.client(store, ctx.key(), { label: "a" });
      const first = await a.acquire();
      const second = await a.acquire();
      assert.deepEqual(second.fences, first.fences);
      assert.equal(second.reservedFences, first.reservedFences);
      assert.equal((await ctx.inspect(store, a.request.keys[0] as string))?.holders.length, 1);
    },
  },
  {
    id: "attempts/re-armed",
    sentence: "an id that holds and asks again gets its full ttl from then on",
    promises: ["P8"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a", ttlMs: ctx.shortTtlMs });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      await ctx.pass(ctx.shortTtlMs / 2);
      await a.acquire();
      const endMs = a.endsAtMs();
      await ctx.firstGranted([b], endMs - ctx.nowMs() + a.request.graceMs);
      assert.ok(ctx.nowMs() >= endMs, "the second attempt did not move the end");
    },
  },
  {
    id: "attempts/direct",
    sentence: "an attempt and a release in their callback form do what their promises do, and never at once",
    promises: ["P1", "P3", "P12"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      const first = await a.acquireDirect();
      await a.acquire();
      await b.expectBusy();
      if (first !== null) assert.deepEqual(a.fences, first.fences);
      assert.equal(await a.releaseDirect(), "released");
      await ctx.firstGranted([b], ctx.guarantees.pollMs);
      assert.ok(b.fence > a.fence, "the next fence is not larger");
      assert.equal(await a.releaseDirect(), "not-held");
    },
  },
  {
    id: "attempts/no-place",
    sentence: "an attempt without a queue leaves no place in line",
    promises: ["P12", "P16"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const hasty = ctx.client(two, key, { label: "hasty", queue: false });
      const patient = ctx.client(two, key, { label: "patient" });
      await a.acquire();
      await hasty.expectBusy();
      const waiters = (await ctx.inspect(one, key))?.waiters ?? [];
      assert.deepEqual(waiters, []);
      await patient.expectBusy();
      await a.release();
      await patient.acquire();
      await patient.release();
      assert.equal(await ctx.inspect(one, key), null);
    },
  },
  {
    id: "attempts/repeated-try",
    sentence:
      "an attempt without a place in line changes nothing when it is delivered again after its answer",
    promises: ["P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a" });
      const hasty = ctx.client(store, key, { label: "hasty", queue: false });
      await a.acquire();
      await hasty.expectBusy();
      await a.release();
      assert.deepEqual(await hasty.repeat(), { ended: true });
      assert.equal(await ctx.inspect(store, key), null);
    },
  },
  {
    id: "attempts/after-release",
    sentence: "an attempt that arrives after its id was released changes nothing",
    promises: ["P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a" });
      await a.acquire();
      await a.release();
      await a.expectEnded();
      assert.equal(await ctx.inspect(store, key), null);
    },
  },
  {
    id: "attempts/after-abandon",
    sentence:
      "an attempt that arrives after its id was abandoned changes nothing, even if it is the first to arrive",
    promises: ["P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const waiting = ctx.client(store, key, { label: "waiting" });
      const early = ctx.client(store, key, { label: "early" });
      const a = ctx.client(store, key, { label: "a" });
      await a.acquire();
      await waiting.expectBusy();
      await waiting.abandon();
      await waiting.expectEnded();
      assert.deepEqual((await ctx.inspect(store, key))?.waiters ?? [], []);
      await a.release();
      await early.abandon();
      await early.expectEnded();
      assert.equal(await ctx.inspect(store, key), null);
    },
  },
  {
    id: "attempts/abandon-frees",
    sentence: "abandoning an id that holds frees the key for the next in line",
    promises: ["P6", "P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      await b.expectBusy();
      await a.abandon();
      await b.acquire();
      assert.equal(await a.release(), "not-held");
      assert.equal((await a.renew()).state, "lost");
      await a.abandon();
      assert.equal(await b.owns(), true);
    },
  },
  {
    id: "attempts/abandon-many",
    sentence: "one call abandons many ids, holders and waiters of several keys and one that never arrived",
    promises: ["P6", "P8", "P20"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [store, other] = [await ctx.open(), await ctx.open()];
      const keys = Array.from({ length: 8 }, () => ctx.key());
      const holders = keys.map((key) => ctx.client(store, key, { label: "holder" }));
      for (const holder of holders) await holder.acquire();
      const waiter = ctx.client(store, keys[0] as string, { label: "waiter" });
      await waiter.expectBusy();
      const early = ctx.client(store, ctx.key(), { label: "early" });
      const requests = [early, waiter, ...holders].map(({ request }) => request);
      assert.deepEqual(await store.abandon(requests, makeIo()), []);
      for (const key of keys) await ctx.client(other, key, { label: "next" }).acquire();
      for (const client of [early, waiter]) await client.expectEnded();
      assert.deepEqual(await store.abandon([], makeIo()), []);
    },
  },
];

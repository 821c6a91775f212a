// Attempts that are repeated, given up or late. A reply can be lost, so the same id may ask again at any time (P8).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { makeIo } from "../io.ts";
import { leases } from "../needs.ts";

export const attemptCases: readonly ContractCase[] = [
  {
    id: "attempts/idempotent",
    sentence: "an id that holds and asks again keeps its fence",
    promises: ["P3", "P8"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const a = ctx.party(store, ctx.key(), { label: "a" });
      const first = await a.take();
      const second = await a.take();
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
      const a = ctx.party(one, key, { label: "a", ttlMs: ctx.shortTtlMs });
      const b = ctx.party(two, key, { label: "b" });
      await a.take();
      await ctx.pass(ctx.shortTtlMs / 2);
      await a.take();
      const endMs = a.endsAtMs();
      await ctx.first([b], endMs - ctx.nowMs() + a.request.graceMs);
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
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b" });
      const first = await a.takeDirect();
      await a.take();
      await b.refused();
      if (first !== null) assert.deepEqual(a.fences, first.fences);
      assert.equal(await a.releaseDirect(), "released");
      await ctx.first([b], ctx.guarantees.pollMs);
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
      const a = ctx.party(one, key, { label: "a" });
      const hasty = ctx.party(two, key, { label: "hasty", queue: false });
      const patient = ctx.party(two, key, { label: "patient" });
      await a.take();
      await hasty.refused();
      const waiters = (await ctx.inspect(one, key))?.waiters ?? [];
      assert.deepEqual(waiters, []);
      await patient.refused();
      await a.release();
      await patient.take();
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
      const a = ctx.party(store, key, { label: "a" });
      const hasty = ctx.party(store, key, { label: "hasty", queue: false });
      await a.take();
      await hasty.refused();
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
      const a = ctx.party(store, key, { label: "a" });
      await a.take();
      await a.release();
      await a.ended();
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
      const waiting = ctx.party(store, key, { label: "waiting" });
      const early = ctx.party(store, key, { label: "early" });
      const a = ctx.party(store, key, { label: "a" });
      await a.take();
      await waiting.refused();
      await waiting.abandon();
      await waiting.ended();
      assert.deepEqual((await ctx.inspect(store, key))?.waiters ?? [], []);
      await a.release();
      await early.abandon();
      await early.ended();
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
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b" });
      await a.take();
      await b.refused();
      await a.abandon();
      await b.take();
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
      const holders = keys.map((key) => ctx.party(store, key, { label: "holder" }));
      for (const holder of holders) await holder.take();
      const waiter = ctx.party(store, keys[0] as string, { label: "waiter" });
      await waiter.refused();
      const early = ctx.party(store, ctx.key(), { label: "early" });
      const requests = [early, waiter, ...holders].map(({ request }) => request);
      assert.deepEqual(await store.abandon(requests, makeIo()), []);
      for (const key of keys) await ctx.party(other, key, { label: "next" }).take();
      for (const party of [early, waiter]) await party.ended();
      assert.deepEqual(await store.abandon([], makeIo()), []);
    },
  },
];

// Waking up: a waiter learns that it is its turn, by push where the store pushes, by its heartbeat in any case.

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
      await arrives("the push", () => b.pushes.length > 0);
      const pushed = b.pushes.find((grant) => grant !== undefined);
      const answer = await b.take();
      grew(a.fence, b.fence);
      if (pushed !== undefined) assert.deepEqual(answer.fences, pushed.fences);
    },
  },
  {
    id: "wakes/anchor",
    sentence: "a pushed grant counts from the last heartbeat and is valid no longer than the claim window",
    promises: ["P2"],
    level: "contract",
    needs: [pushes, leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.party(one, key, { label: "a" });
      const b = ctx.party(two, key, { label: "b", ttlMs: 60_000 });
      await a.take();
      await b.listen();
      for (let beat = 0; beat < 3; beat += 1) {
        await b.refused();
        await ctx.pass(ctx.guarantees.claimMs / 5);
      }
      await a.release();
      await arrives("the push", () => b.pushes.length > 0);
      const pushed = b.pushes.find((grant) => grant !== undefined);
      if (pushed === undefined) return;
      assert.equal(pushed.anchor, b.request.seq);
      assert.ok(
        pushed.validMs <= ctx.guarantees.claimMs,
        `valid for ${pushed.validMs} ms without any renewal`,
      );
    },
  },
  {
    id: "wakes/pushed-grant-is-renewed",
    sentence: "a pushed grant that is renewed in time lasts its full ttl",
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
      await arrives("the push", () => b.pushes.length > 0);
      b.grant = b.pushes.find((grant) => grant !== undefined) ?? (await b.take());
      assert.equal((await b.renew()).state, "renewed");
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
      await arrives("the push", () => waiters.some((waiter) => waiter.pushes.length > 0));
      await sleep(QUIET_MS);
      assert.deepEqual(
        waiters.map((waiter) => waiter.pushes.length > 0),
        [true, false, false],
      );
    },
  },
];

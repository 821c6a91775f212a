// How a lease ends: not before its time, not long after, and then for ever.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { makeIo } from "../io.ts";
import { leases } from "../requirements.ts";

export const endCases: readonly ContractCase[] = [
  {
    id: "ends/not-before-ttl",
    sentence: "a silent holder keeps the key for its ttl and grace, and not much longer",
    promises: ["P2", "P10"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a", ttlMs: 200, graceMs: 100 });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      const endMs = a.endsAtMs();
      await ctx.firstGranted([b], endMs - ctx.nowMs() + 100);
      // Half of the grace may go to clocks that run at different rates.
      assert.ok(ctx.nowMs() >= endMs + 50, "the successor was granted before ttl and grace were over");
    },
  },
  {
    id: "ends/renewal-moves-the-end",
    sentence: "a holder that renews keeps the key past its ttl, under the same fence",
    promises: ["P2", "P3"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const ttlMs = ctx.virtual === null ? 2_000 : 200;
      const a = ctx.client(one, key, { label: "a", ttlMs });
      const b = ctx.client(two, key, { label: "b", queue: false });
      const first = await a.acquire();
      for (let turn = 0; turn < 8; turn += 1) {
        await ctx.pass(ttlMs / 4);
        const answer = await a.renew();
        assert.ok(answer.state === "renewed" || answer.state === "held", `the renewal was ${answer.state}`);
        await b.expectBusy();
      }
      const again = await a.acquire();
      assert.deepEqual(again.fences, first.fences);
    },
  },
  {
    id: "ends/no-resurrection",
    sentence: "a renewal after the end is lost and never recreates what is gone",
    promises: ["P6"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a", ttlMs: 200 });
      const b = ctx.client(store, key, { label: "b" });
      await a.acquire();
      await ctx.expire(a);
      assert.equal((await a.renew()).state, "lost");
      assert.equal(await ctx.inspect(store, key), null);
      await b.acquire();
      assert.equal((await a.renew()).state, "lost");
      assert.equal(await b.owns(), true);
      assert.equal(await a.owns(), false);
    },
  },
  {
    id: "ends/renewal-in-batch",
    sentence: "renewing many leases gives each its own answer, in order",
    promises: ["P6"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const live = ctx.client(store, ctx.key("live"), { label: "live" });
      const gone = ctx.client(store, ctx.key("gone"), { label: "gone" });
      const other = ctx.client(store, ctx.key("other"), { label: "other" });
      for (const client of [live, gone, other]) await client.acquire();
      await gone.release();
      const answers = await store.renew([live.item(), gone.item(), other.item()], makeIo());
      const alive = answers.map((answer) => answer.state === "renewed" || answer.state === "held");
      assert.deepEqual(alive, [true, false, true]);
      assert.equal(answers[1]?.state, "lost");
      assert.deepEqual(await store.renew([], makeIo()), []);
    },
  },
  {
    id: "ends/validity",
    sentence: "a grant and a renewal are valid for no longer than the store keeps the key",
    promises: ["P2"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a", ttlMs: ctx.shortTtlMs });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      await ctx.pass(100);
      const answer = await a.renew();
      assert.equal(answer.state, "renewed");
      const endMs = a.endsAtMs();
      await ctx.firstGranted([b], endMs - ctx.nowMs() + a.request.graceMs);
      assert.ok(
        ctx.nowMs() >= endMs,
        "the successor was granted while the holder still believed in its lease",
      );
    },
  },
];

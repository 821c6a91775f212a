// Records that outlive their holder: the key stays taken for `keepMs` after the grant, whatever becomes
// of who took it.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { assertLarger } from "../checks.ts";
import type { ContractContext } from "../contract-context.ts";
import { makeIo } from "../io.ts";
import { kind, leases } from "../requirements.ts";
import type { TestClient } from "../test-client.ts";

const KEEP_MS = 600;

/** Grants, ends the grant, and measures that the next one comes after `KEEP_MS` and not before. */
async function stays(
  ctx: ContractContext,
  ttlMs: number,
  end: (holder: TestClient) => Promise<void>,
): Promise<void> {
  const [one, two] = [await ctx.open(), await ctx.open()];
  const key = ctx.key();
  const a = ctx.client(one, key, { label: "a", ttlMs, keepMs: KEEP_MS });
  const b = ctx.client(two, key, { label: "b" });
  const sentAtMs = ctx.nowMs();
  await a.acquire();
  await end(a);
  const kept = await ctx.inspect(two, key);
  if (ctx.nowMs() < sentAtMs + KEEP_MS)
    assert.equal(kept?.holders[0]?.kept, true, "it is shown as kept, not as held");
  await ctx.firstGranted([b], sentAtMs + KEEP_MS - ctx.nowMs());
  assert.ok(ctx.nowMs() >= sentAtMs + KEEP_MS, "the key was given away although it had to stay taken");
  assertLarger(a.fence, b.fence);
}

export const keepCases: readonly ContractCase[] = [
  {
    id: "keep/release",
    sentence: "a kept key stays taken after its release",
    promises: ["P10"],
    level: "contract",
    needs: [kind("keep")],
    run: (ctx) =>
      stays(ctx, 30_000, async (holder) => {
        assert.equal(await holder.release(), "released");
        assert.equal(await holder.owns(), false);
        assert.equal(await holder.release(), "not-held");
      }),
  },
  {
    id: "keep/abandon",
    sentence: "a kept key stays taken although its holder was abandoned",
    promises: ["P10"],
    level: "contract",
    needs: [kind("keep")],
    run: (ctx) => stays(ctx, 30_000, (holder) => holder.abandon()),
  },
  {
    id: "keep/expiry",
    sentence: "a kept key stays taken although the lease of its holder ran out",
    promises: ["P10"],
    level: "contract",
    needs: [kind("keep"), leases],
    run: (ctx) =>
      stays(ctx, 150, async (holder) => {
        await ctx.expire(holder);
        assert.equal((await holder.renew()).state, "lost");
      }),
  },
  {
    id: "keep/closed-store",
    sentence: "a kept key stays taken although the store that took it was closed",
    promises: ["P10"],
    level: "contract",
    needs: [kind("keep")],
    run: (ctx) =>
      stays(ctx, 30_000, async (holder) => {
        await holder.release();
        await ctx.close(holder.store);
      }),
  },
  {
    id: "keep/over",
    sentence: "a holder that holds for longer than it keeps frees the key with its release",
    promises: ["P10"],
    level: "contract",
    needs: [kind("keep")],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a", keepMs: 50 });
      const b = ctx.client(store, key, { label: "b" });
      await a.acquire();
      await ctx.pass(100);
      await b.expectBusy();
      assert.equal(await a.release(), "released");
      await b.acquire();
    },
  },
  {
    id: "keep/revoke",
    sentence: "an operator can free a key that is only kept",
    promises: ["P10"],
    level: "contract",
    needs: [kind("keep")],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a", keepMs: 60_000 });
      const b = ctx.client(store, key, { label: "b" });
      await a.acquire();
      await a.release();
      await b.expectBusy();
      assert.equal(await store.revoke(key, { reason: "test", force: true }, makeIo()), "revoked");
      await b.acquire();
    },
  },
];

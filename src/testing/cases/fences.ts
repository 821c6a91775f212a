// Fences: no two grants of a key share one, and every later grant has a larger one, whatever ended the
// grant before (P3).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { assertLarger } from "../checks.ts";
import type { ContractContext } from "../contract-context.ts";
import { makeIo } from "../io.ts";
import { hasServer, kind, leases, machineClock } from "../requirements.ts";
import type { TestClient } from "../test-client.ts";

const MAX_FENCE = 2n ** 63n - 1n;

/**
 * A grant, what ends it, and the next grant from another opened store: the fence must have passed all
 * that the holder can have used, whatever the clock of the store says.
 */
async function grows(
  ctx: ContractContext,
  end: (holder: TestClient) => Promise<void>,
  { ttlMs = 30_000 } = {},
): Promise<void> {
  const key = ctx.key();
  let before = 0n;
  for (let turn = 0; turn < 4; turn += 1) {
    const client = ctx.client(await ctx.open(), key, { ttlMs, label: `holder ${turn}` });
    await client.acquire();
    assertLarger(before, client.fence);
    before = client.topFence;
    await end(client);
  }
}

export const fenceCases: readonly ContractCase[] = [
  {
    id: "fences/range",
    sentence: "a fence and its room are positive and fit a signed 64-bit column",
    promises: ["P3"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const client = ctx.client(await ctx.open(), ctx.key());
      const grant = await client.acquire();
      assert.equal(grant.fences.length, 1);
      assert.ok(
        client.fence > 0n && client.topFence <= MAX_FENCE,
        `fence ${client.fence}, room ${grant.reservedFences}`,
      );
      assert.equal(Number.isSafeInteger(grant.reservedFences) && grant.reservedFences >= 0, true);
    },
  },
  {
    id: "fences/release",
    sentence: "after a release the fence is larger than the last one that was used",
    promises: ["P3"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      let before = 0n;
      for (let turn = 0; turn < 20; turn += 1) {
        const client = ctx.client(store, key);
        const grant = await client.acquire();
        assertLarger(before, client.fence);
        // As if the lease had been handed on inside the process: up to the last number of its room.
        before =
          turn % 2 === 0 ? client.fence + BigInt(Math.min(turn, grant.reservedFences)) : client.topFence;
        assert.equal(await client.release([before]), "released");
      }
    },
  },
  {
    id: "fences/expiry",
    sentence: "after a holder that vanished the fence is larger than its whole room",
    promises: ["P3"],
    level: "contract",
    needs: [leases],
    run: (ctx) => grows(ctx, (holder) => ctx.expire(holder), { ttlMs: 150 }),
  },
  {
    id: "fences/abandon",
    sentence: "after an abandoned grant the fence is larger than its whole room",
    promises: ["P3"],
    level: "contract",
    needs: [],
    run: (ctx) => grows(ctx, (holder) => holder.abandon()),
  },
  {
    id: "fences/revoke",
    sentence: "after a forced revoke the fence is larger than the whole room of who was revoked",
    promises: ["P3"],
    level: "contract",
    needs: [],
    run: (ctx) =>
      grows(ctx, async (holder) => {
        const [key] = holder.request.keys;
        assert.equal(
          await holder.store.revoke(key as string, { reason: "test", force: true }, makeIo()),
          "revoked",
        );
      }),
  },
  {
    id: "fences/reopen",
    sentence: "fences grow although every opened store was closed in between",
    promises: ["P3"],
    level: "contract",
    needs: [],
    run: (ctx) =>
      grows(ctx, async (holder) => {
        await holder.release([holder.topFence]);
        await ctx.close(holder.store);
      }),
  },
  {
    id: "fences/wall-clock-back",
    sentence:
      "fences grow although the calendar was set back, after a release and after a holder that vanished",
    promises: ["P3"],
    level: "contract",
    needs: [machineClock, leases],
    run: (ctx) =>
      grows(ctx, async (holder) => {
        if (holder.fence % 2n === 0n) await holder.release([holder.topFence]);
        else await ctx.expire(holder);
        ctx.virtual?.jumpWall(-24 * 3_600_000);
      }),
  },
  {
    id: "fences/server-restart",
    sentence: "fences grow over a restart of the server",
    promises: ["P3"],
    level: "contract",
    needs: [hasServer],
    run: (ctx) =>
      grows(ctx, async (holder) => {
        await holder.release([holder.topFence]);
        await ctx.close(holder.store);
        await ctx.restartServer();
      }),
  },
  {
    id: "fences/shared-holders",
    sentence: "holders beside each other have different fences, in the order of their grants",
    promises: ["P3"],
    level: "contract",
    needs: [kind("shared")],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      let before = 0n;
      for (let i = 0; i < 5; i += 1) {
        const reader = ctx.client(store, key, { mode: "shared", label: `reader ${i}` });
        assert.equal(
          (await reader.acquire()).reservedFences,
          0,
          "only a lone holder may number its own hand-offs",
        );
        assertLarger(before, reader.fence);
        before = reader.fence;
      }
    },
  },
];

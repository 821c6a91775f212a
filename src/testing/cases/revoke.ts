// An operator takes a key away: by name, by fence, softly or by force.

import assert from "node:assert/strict";
import type { OpenStore, RevokeAnswer } from "../../core/store.ts";
import type { ContractCase } from "../case.ts";
import { assertLarger } from "../checks.ts";
import { waitFor, makeIo } from "../io.ts";
import { kind, leases } from "../requirements.ts";
import type { Loss } from "../test-client.ts";

function revoke(store: OpenStore, key: string, force: boolean, fence?: bigint): Promise<RevokeAnswer> {
  return store.revoke(
    key,
    { reason: "maintenance", force, ...(fence === undefined ? {} : { fence }) },
    makeIo(),
  );
}

export const revokeCases: readonly ContractCase[] = [
  {
    id: "revoke/nobody",
    sentence: "revoking a free key says free, and revoking another fence leaves the holder alone",
    promises: ["P5"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      assert.equal(await revoke(two, key, false), "free");
      assert.equal(await revoke(two, key, true), "free");
      const a = ctx.client(one, key, { label: "a" });
      await a.acquire();
      assert.equal(await revoke(two, key, true, a.fence - 1n), "other-fence");
      assert.equal(await revoke(two, key, true, a.topFence + 1n), "other-fence");
      assert.equal(await a.owns(), true);
    },
  },
  {
    id: "revoke/soft",
    sentence: "a revoked holder cannot renew, and the key is free once it let go",
    promises: ["P1", "P6"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      assert.equal(await revoke(two, key, false, a.fence), "revoked");
      await b.expectBusy();
      assert.equal((await ctx.inspect(two, key))?.holders[0]?.revoked, "maintenance");
      const { clocks: _clocks, ...answer } = await a.renew();
      assert.deepEqual(answer, { state: "lost", reason: "revoked", detail: "maintenance" });
      assert.equal(await a.owns(), false);
      await b.expectBusy();
      await a.abandon();
      await b.acquire();
      assertLarger(a.fence, b.fence);
    },
  },
  {
    id: "revoke/soft-silent",
    sentence: "a revoked holder that does not let go loses the key when its window ended, not before",
    promises: ["P1", "P6"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a", ttlMs: ctx.shortTtlMs });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      assert.equal(await revoke(two, key, false), "revoked");
      const endMs = a.endsAtMs();
      assert.equal((await a.renew()).state, "lost");
      await ctx.firstGranted([b], endMs - ctx.nowMs() + a.request.graceMs);
      assert.ok(
        ctx.nowMs() >= endMs,
        "the successor was granted while the holder still believed in its lease",
      );
    },
  },
  {
    id: "revoke/force",
    sentence: "a forced revoke frees the key at once, and the holder has lost it for ever",
    promises: ["P5", "P6"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      await b.expectBusy();
      assert.equal(await revoke(two, key, true), "revoked");
      await b.acquire();
      assert.equal((await a.renew()).state, "lost");
      assert.equal(await a.owns(), false);
      assert.equal(await a.release(), "not-held");
      assert.equal(await b.owns(), true);
    },
  },
  {
    id: "revoke/handed-on",
    sentence: "a lease that was handed on inside its process is shown and revoked by the fence in use",
    promises: ["P3"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      const grant = await a.acquire();
      if (grant.reservedFences < 2) return;
      const used = a.fence + 2n;
      assert.notEqual((await a.renew([used])).state, "lost");
      assert.equal((await ctx.inspect(two, key))?.holders[0]?.fence, used);
      assert.equal(await revoke(two, key, true, used), "revoked");
    },
  },
  {
    id: "revoke/one-of-many",
    sentence: "revoking by fence takes the key from one reader and leaves the others",
    promises: ["P5"],
    level: "contract",
    needs: [kind("shared")],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const readers = ["a", "b", "c"].map((label) => ctx.client(store, key, { mode: "shared", label }));
      for (const reader of readers) await reader.acquire();
      assert.equal(await revoke(store, key, true, readers[1]?.fence), "revoked");
      assert.deepEqual(await Promise.all(readers.map((reader) => reader.owns())), [true, false, true]);
    },
  },
  {
    id: "revoke/told",
    sentence: "a holder whose store can tell of losses hears of the revoke without asking",
    promises: ["P7"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const losses: Loss[] = [];
      if (one.onLoss === undefined) return;
      const stop = one.onLoss((id, reason, detail) => losses.push({ id, reason, detail }));
      const a = ctx.client(one, key, { label: "a" });
      await a.acquire();
      await revoke(two, key, false);
      await waitFor("the news of the loss", () => losses.length > 0);
      assert.deepEqual(losses[0], { id: a.request.id, reason: "revoked", detail: "maintenance" });
      stop();
    },
  },
];

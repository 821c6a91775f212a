// The life of a lease through the public API: renewed, extended, verified, ended in time and only once.

import assert from "node:assert/strict";
import { LockLostError } from "../../index.ts";
import type { ApiCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { LONG_WAIT_MS, waitFor, sleep } from "../io.ts";
import { windows } from "../requirements.ts";

/** Blocks the event loop, as a long computation would. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

export const leaseCases: readonly ApiCase[] = [
  {
    id: "api/renewed",
    sentence: "a lease is renewed for as long as it is held",
    promises: ["P1", "P2"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key, { ttl: 2_000 });
      const { fence } = lease;
      for (let turn = 0; turn < 5; turn += 1) {
        await sleep(600);
        assert.equal(lease.held, true);
        assert.equal(await two.tryAcquire(key), null);
      }
      assert.equal(lease.fence, fence);
      assert.equal(await lease.verify(), true);
      assert.equal(await lease.release(), true);
    },
  },
  {
    id: "api/not-renewed",
    sentence: "a lease that is not renewed signals its loss before the next holder is in",
    promises: ["P1", "P2", "P7"],
    level: "api",
    needs: [windows],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key, { ttl: 1_000, renew: false });
      let abortedAtMs = Number.POSITIVE_INFINITY;
      lease.signal.addEventListener("abort", () => {
        abortedAtMs = ctx.nowMs();
      });
      const next = await two.acquire(key, { wait: LONG_WAIT_MS });
      const grantedAtMs = ctx.nowMs();
      assert.equal(lease.held, false);
      assert.equal(lease.remaining, 0);
      assert.ok(abortedAtMs <= grantedAtMs, "the signal came after the successor");
      assert.ok(lease.signal.reason instanceof LockLostError, "the reason of the signal is the loss");
      assert.throws(() => lease.assertHeld(), LockLostError);
      assert.equal(await lease.release(), false);
      await rejectsWith("ERR_LOCK_LOST", lease.extend());
      assert.equal(next.held, true);
      assertLarger(lease.fence, next.fence);
      assert.equal(await next.verify(), true);
    },
  },
  {
    id: "api/blocked-event-loop",
    sentence: "after an event loop that was blocked past the ttl, held is false in the very first look",
    promises: ["P7"],
    level: "api",
    needs: [windows],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key, { ttl: 1_000 });
      block(1_300);
      assert.equal(lease.held, false);
      assert.equal(lease.remaining, 0);
      const next = await two.acquire(key, { wait: LONG_WAIT_MS });
      assert.equal(lease.held, false);
      assertLarger(lease.fence, next.fence);
      assert.equal(await lease.release(), false);
      assert.equal(await next.verify(), true);
    },
  },
  {
    id: "api/extend",
    sentence: "extend moves the end of a lease, and the store keeps the key for it",
    promises: ["P2"],
    level: "api",
    needs: [windows],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key, { ttl: 2_000, renew: false });
      await lease.extend(10_000);
      if (ctx.guarantees.longestMs === undefined)
        assert.ok(lease.remaining > 2_000, `${lease.remaining} ms remain`);
      await sleep(2_500);
      assert.equal(lease.held, true);
      assert.equal(await two.tryAcquire(key), null);
      assert.equal(await lease.verify(), true);
    },
  },
  {
    id: "api/max-hold",
    sentence: "a lease with maxHold is renewed until then and lost afterwards",
    promises: ["P7", "P10"],
    level: "api",
    needs: [windows],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key, { ttl: 2_500, maxHold: 4_000 });
      const sinceMs = ctx.nowMs();
      const next = await two.acquire(key, { wait: LONG_WAIT_MS });
      assert.ok(ctx.nowMs() - sinceMs >= 3_400, "it ended long before maxHold");
      assert.equal(lease.held, false);
      await waitFor("the signal of the loss", () => lease.signal.aborted);
      assert.equal(await next.verify(), true);
    },
  },
  {
    id: "api/release-twice",
    sentence: "a release can be repeated and never frees the next holder",
    promises: ["P5"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key);
      assert.equal(await lease.release(), true);
      const next = required(await two.tryAcquire(key), "the lease of the next");
      await lease.release();
      await lease[Symbol.asyncDispose]();
      assert.equal(await next.verify(), true);
      assert.equal(await one.tryAcquire(key), null);
      assert.equal(lease.signal.aborted, false, "a release is not a loss");
    },
  },
  {
    id: "api/revoke",
    sentence: "a revoked holder is told, and using rejects with what its callback returned",
    promises: ["P6", "P7"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      assert.equal(await two.revoke(key, { reason: "nobody has it" }), false);
      const error = await rejectsWith<LockLostError>(
        "ERR_LOCK_LOST",
        one.using(key, { ttl: 3_000 }, async (lease) => {
          assert.equal(await two.revoke(key, { reason: "maintenance", fence: lease.fence }), true);
          await waitFor("the loss", () => lease.signal.aborted);
          assert.equal(lease.held, false);
          return "half done";
        }),
      );
      assert.equal(error.reason, "revoked");
      assert.equal(error.result, "half done");
      const next = await two.acquire(key, { wait: LONG_WAIT_MS });
      assertLarger(BigInt(required(error.fence, "the fence of the lost lease")), next.fence);
    },
  },
  {
    id: "api/revoke-keeps",
    sentence: "a key that was revoked without force stays taken until its holder lets go",
    promises: ["P1", "P6"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key, { ttl: 10_000 });
      assert.equal(await two.revoke(key, { reason: "maintenance" }), true);
      await waitFor("the loss", () => lease.signal.aborted);
      assert.equal(await two.tryAcquire(key, { ttl: 10_000 }), null);
      assert.equal(await lease.release(), false);
      await waitFor("the end of its record", async () => (await two.inspect(key)) === null);
      assertLarger(
        lease.fence,
        required(await two.tryAcquire(key, { ttl: 10_000 }), "the lease of the next").fence,
      );
    },
  },
  {
    id: "api/revoke-force",
    sentence: "after a forced revoke the key is free at once, and verify tells its holder",
    promises: ["P5", "P6"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key);
      await rejectsWith(
        "ERR_FENCE_STALE",
        two.revoke(key, { reason: "too late", force: true, fence: lease.fence - 1n }),
      );
      assert.equal(await lease.verify(), true);
      assert.equal(await two.revoke(key, { reason: "now", force: true }), true);
      const next = required(await two.tryAcquire(key), "the lease of the next");
      assert.equal(await lease.verify(), false);
      assert.equal(lease.held, false);
      assert.equal(lease.signal.aborted, true);
      assertLarger(lease.fence, next.fence);
      assert.equal(await next.verify(), true);
    },
  },
];

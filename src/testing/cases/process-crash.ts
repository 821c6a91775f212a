// Processes that are killed while they hold, wait or keep: their keys are free again in time, and nothing
// else is (P10).

import assert from "node:assert/strict";
import type { LockTimeoutError } from "../../index.ts";
import type { ProcessCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { waitFor, handled, LONG_WAIT_MS, sleep, USUAL_WAIT_MS } from "../io.ts";
import { fifo, kind, severalProcesses } from "../requirements.ts";
import type { ProcessContext } from "../process-context.ts";

const TTL_MS = 2_000;
const GRACE_MS = 200;

/** How long a key may stay taken after its holder was killed. */
function boundMs(ctx: ProcessContext): number {
  return freeAfterMs(ctx, TTL_MS, GRACE_MS) + ctx.guarantees.pollMs + ctx.slackMs;
}

function freeAfterMs({ guarantees }: ProcessContext, ttlMs: number, graceMs: number): number {
  const { freeAfterCrashMs, freeLateMs = 0 } = guarantees;
  return (freeAfterCrashMs === "lease" ? ttlMs + graceMs : freeAfterCrashMs) + freeLateMs;
}

export const crashCases: readonly ProcessCase[] = [
  {
    id: "process/meet",
    sentence: "processes exclude each other, name each other in timeouts and wake each other up",
    promises: ["P1", "P11", "P17"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const child = await ctx.child("the child");
      const locks = await ctx.locks();
      const key = ctx.key();
      const report = await child.call("acquire", { as: "lease", key });
      assert.equal(await locks.tryAcquire(key), null);
      const error = await rejectsWith<LockTimeoutError>(
        "ERR_LOCK_TIMEOUT",
        locks.acquire(key, { wait: 100 }),
      );
      if (error.holders.length > 0) assert.equal(error.holders[0]?.label, "the child");
      const waiting = handled(locks.acquire(key, { wait: LONG_WAIT_MS }));
      await ctx.untilWaiting(locks, key);
      const releasedAtMs = ctx.nowMs();
      assert.deepEqual(await child.call("release", { as: "lease" }), { released: true });
      const lease = await waiting;
      const tookMs = ctx.nowMs() - releasedAtMs;
      assert.ok(tookMs <= ctx.guarantees.pollMs + ctx.slackMs, `the wake-up took ${tookMs} ms`);
      assertLarger(BigInt(required(report.fences[key], "the fence of the child")), lease.fence);
      const late = child.call("acquire", { as: "late", key, options: { wait: 50 } });
      await assert.rejects(late, { code: "ERR_LOCK_TIMEOUT" });
    },
  },
  {
    id: "process/killed-holder",
    sentence: "the key of a killed holder is free again in time, under a larger fence",
    promises: ["P3", "P10"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const child = await ctx.child();
      const locks = await ctx.locks();
      const key = ctx.key();
      const report = await child.call("acquire", { as: "lease", key, options: { ttl: TTL_MS } });
      const waiting = handled(locks.acquire(key, { wait: LONG_WAIT_MS }));
      await ctx.untilWaiting(locks, key);
      const killedAtMs = ctx.nowMs();
      await child.kill();
      const lease = await waiting;
      const tookMs = ctx.nowMs() - killedAtMs;
      assert.ok(tookMs <= boundMs(ctx), `the key was free after ${tookMs} ms`);
      assertLarger(BigInt(required(report.fences[key], "the fence of the child")), lease.fence);
    },
  },
  {
    id: "process/killed-unnoticed",
    sentence: "the key of a holder that was killed while nobody waited is free again in time",
    promises: ["P10"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const child = await ctx.child();
      const locks = await ctx.locks();
      const key = ctx.key();
      await child.call("acquire", { as: "lease", key, options: { ttl: TTL_MS } });
      const killedAtMs = ctx.nowMs();
      await child.kill();
      await sleep(freeAfterMs(ctx, TTL_MS, GRACE_MS));
      await locks.acquire(key, { wait: LONG_WAIT_MS });
      const tookMs = ctx.nowMs() - killedAtMs;
      assert.ok(tookMs <= boundMs(ctx), `the key was free after ${tookMs} ms`);
    },
  },
  {
    id: "process/killed-several",
    sentence: "all keys and permits of a killed holder come back",
    promises: ["P9", "P10"],
    level: "process",
    needs: [severalProcesses, kind("multi"), kind("semaphore")],
    async run(ctx) {
      const child = await ctx.child();
      const locks = await ctx.locks();
      const keys = [ctx.key("a"), ctx.key("b")];
      const pool = ctx.key("pool");
      await child.call("acquire", { as: "both", key: keys, options: { ttl: TTL_MS } });
      await child.call("acquire", {
        as: "permits",
        key: pool,
        options: { ttl: TTL_MS, limit: 3, permits: 2 },
      });
      assert.equal(await locks.tryAcquire(pool, { limit: 3, permits: 2 }), null);
      const killedAtMs = ctx.nowMs();
      await child.kill();
      const wait = LONG_WAIT_MS;
      await Promise.all([
        ...keys.map((key) => locks.acquire(key, { wait })),
        locks.acquire(pool, { wait, limit: 3, permits: 3 }),
      ]);
      const tookMs = ctx.nowMs() - killedAtMs;
      assert.ok(tookMs <= boundMs(ctx), `the keys were free after ${tookMs} ms`);
    },
  },
  {
    id: "process/killed-waiter",
    sentence: "a killed waiter delays the line by at most one claim window",
    promises: ["P12"],
    level: "process",
    needs: [severalProcesses, fifo],
    async run(ctx) {
      const child = await ctx.child();
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key);
      child.start("acquire", { as: "never", key, options: { wait: LONG_WAIT_MS } });
      await ctx.untilWaiting(one, key);
      const waiting = handled(two.acquire(key, { wait: LONG_WAIT_MS }));
      await ctx.untilWaiting(one, key, 2);
      await child.kill();
      if (ctx.guarantees.longestMs === undefined && ctx.guarantees.freeAfterCrashMs !== "lease") {
        // A store that knows the dead does not show them; one with a longest window knows them when that
        // is over.
        const showsOne = async (): Promise<boolean> => (await one.inspect(key))?.waiters?.length === 1;
        await waitFor("the end of the killed waiter's wait in the store", showsOne);
      }
      const releasedAtMs = ctx.nowMs();
      await lease.release();
      await waiting;
      const tookMs = ctx.nowMs() - releasedAtMs;
      assert.ok(tookMs <= ctx.guarantees.claimMs + GRACE_MS + ctx.slackMs, `the next waited ${tookMs} ms`);
    },
  },
  {
    id: "process/killed-once",
    sentence: "a key that once keeps stays taken although its process was killed",
    promises: ["P10"],
    level: "process",
    needs: [severalProcesses, kind("keep")],
    async run(ctx) {
      const child = await ctx.child();
      const locks = await ctx.locks();
      const key = ctx.key();
      const atLeast = freeAfterMs(ctx, TTL_MS, GRACE_MS) + 1_000;
      const sinceMs = ctx.nowMs();
      // The key is free: the wait is for the store of the child to open, which takes long on a busy machine.
      const options = { ttl: TTL_MS, wait: USUAL_WAIT_MS };
      assert.deepEqual(await child.call("once", { key, atLeast, options }), { ran: true });
      const ranBeforeMs = ctx.nowMs();
      await child.kill();
      for (;;) {
        const { ran } = await locks.once(key, { atLeast: 100 }, () => 1);
        if (ran) break;
        assert.ok(ctx.nowMs() <= ranBeforeMs + atLeast + ctx.slackMs, "it never ran again");
        await sleep(25);
      }
      assert.ok(ctx.nowMs() >= sinceMs + atLeast, `it ran again after ${ctx.nowMs() - sinceMs} ms`);
    },
  },
  {
    id: "process/closed",
    sentence: "a process that closed its locks ends by itself, and nothing of it is left",
    promises: ["P16"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const child = await ctx.child();
      const locks = await ctx.locks();
      const [key, other] = [ctx.key(), ctx.key()];
      const held = await locks.acquire(other);
      await child.call("acquire", { as: "lease", key });
      child.start("acquire", { as: "never", key: other, options: { wait: LONG_WAIT_MS } });
      await ctx.untilWaiting(locks, other);
      await child.call("close", {});
      await child.exits();
      required(await locks.tryAcquire(key), "the key that was released");
      assert.deepEqual((await locks.inspect(other))?.waiters ?? [], []);
      await held.release();
    },
  },
];

// The everyday calls through the public API: acquire, tryAcquire, using, and how a wait ends.

import assert from "node:assert/strict";
import type { LockTimeoutError } from "../../index.ts";
import type { ApiCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { waitFor, handled, LONG_WAIT_MS, sleep } from "../io.ts";
import { fifo } from "../requirements.ts";

/**
 * How soon the store is told that a wait is over. Stores forget a waiter that says nothing after several
 * seconds.
 */
const TOLD_MS = 1_000;

export const acquireCases: readonly ApiCase[] = [
  {
    id: "api/try",
    sentence: "tryAcquire gives a lease or null, and leaves no place in line",
    promises: ["P1", "P12"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = required(await one.tryAcquire(key), "the lease");
      assert.equal(lease.held, true);
      assert.equal(await two.tryAcquire(key), null);
      assert.equal(await one.tryAcquire(key), null);
      assert.deepEqual((await one.inspect(key))?.waiters ?? [], []);
      assert.equal(await lease.release(), true);
      assert.equal(lease.held, false);
      required(await two.tryAcquire(key), "the lease of the second");
    },
  },
  {
    id: "api/using",
    sentence: "using gives back what its callback returned or threw, and lets go in both cases",
    promises: ["P1"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const inside = await one.using(key, async (lease) => {
        assert.equal(await two.tryAcquire(key), null);
        return lease.fence;
      });
      const own = new Error("of the callback");
      await assert.rejects(
        two.using(key, { ttl: 5_000 }, () => Promise.reject(own)),
        (error) => error === own,
      );
      const after = await one.acquire(key, { wait: 0 });
      assertLarger(inside, after.fence);
    },
  },
  {
    id: "api/waits",
    sentence: "acquire waits and is granted within the poll bound after the release",
    promises: ["P11", "P13"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const first = await one.acquire(key);
      const waiting = handled(two.acquire(key, { wait: LONG_WAIT_MS }));
      await ctx.untilWaiting(one, key);
      const releasedAtMs = ctx.nowMs();
      await first.release();
      const second = await waiting;
      const tookMs = ctx.nowMs() - releasedAtMs;
      assert.ok(tookMs <= ctx.guarantees.pollMs + ctx.slackMs, `the wake-up took ${tookMs} ms`);
      assert.equal(second.held, true);
      assertLarger(first.fence, second.fence);
    },
  },
  {
    id: "api/timeout",
    sentence: "a wait that is over fails with a timeout that names the holder, and leaves no place in line",
    promises: ["P13", "P17"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks({ label: "the holder" }), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key);
      const sinceMs = ctx.nowMs();
      const error = await rejectsWith<LockTimeoutError>("ERR_LOCK_TIMEOUT", two.acquire(key, { wait: 150 }));
      const tookMs = ctx.nowMs() - sinceMs;
      assert.ok(tookMs >= 145 && tookMs <= 150 + ctx.slackMs, `it took ${tookMs} ms`);
      assert.equal(error.key, key);
      assert.equal(error.retryable, true);
      if (error.holders.length > 0) {
        assert.deepEqual(
          error.holders.map((holder) => [holder.label, holder.fence]),
          [["the holder", lease.fence]],
        );
        assert.match(error.message, /the holder/);
      }
      await rejectsWith("ERR_LOCK_TIMEOUT", two.acquire(key, { wait: 0 }));
      const noWaiters = async (): Promise<boolean> => ((await one.inspect(key))?.waiters ?? []).length === 0;
      await waitFor("the end of both waits in the store", noWaiters, TOLD_MS);
    },
  },
  {
    id: "api/abort",
    sentence: "an aborted wait ends at once and leaves no place in line",
    promises: ["P8", "P13"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const lease = await one.acquire(key);
      const controller = new AbortController();
      const refused = rejectsWith(
        "ERR_LOCK_ABORTED",
        two.acquire(key, { wait: LONG_WAIT_MS, signal: controller.signal }),
      );
      const waiting = handled(refused);
      const inLine = async (): Promise<unknown[]> => [...((await one.inspect(key))?.waiters ?? [])];
      await ctx.untilWaiting(one, key);
      const sinceMs = ctx.nowMs();
      controller.abort();
      await waiting;
      assert.ok(ctx.nowMs() - sinceMs <= ctx.slackMs, "the abort was not heard at once");
      await rejectsWith("ERR_LOCK_ABORTED", two.acquire(key, { signal: controller.signal }));
      // The store is told after the caller.
      await waitFor("the end of the wait in the store", async () => (await inLine()).length === 0, TOLD_MS);
      await lease.release();
      // Nor does a store that cannot tell who waits keep the key for somebody who is gone.
      const isFree = async (): Promise<boolean> => (await one.tryAcquire(key)) !== null;
      await waitFor("the grant of a key that nobody waits for", isFree);
    },
  },
  {
    id: "api/abort-race",
    sentence: "a grant that races with an abort is either used or given back, never left behind",
    promises: ["P8", "P16"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      for (let turn = 0; turn < 20; turn += 1) {
        const lease = await one.acquire(key, { wait: LONG_WAIT_MS });
        const controller = new AbortController();
        const waiting = handled(two.acquire(key, { wait: LONG_WAIT_MS, signal: controller.signal }));
        if (turn % 2 === 0) await sleep(2);
        const released = lease.release();
        controller.abort();
        await released;
        await waiting.then((late) => late.release()).catch(() => false);
      }
      await (await one.acquire(key, { wait: LONG_WAIT_MS })).release();
    },
  },
  {
    id: "api/order",
    sentence: "waiters of different processes are served in the order in which they came",
    promises: ["P12"],
    level: "api",
    needs: [fifo],
    async run(ctx) {
      const key = ctx.key();
      const lease = await (await ctx.locks()).acquire(key);
      const served: number[] = [];
      const waiting: Promise<void>[] = [];
      for (let i = 0; i < 5; i += 1) {
        const locks = await ctx.locks();
        waiting.push(handled(locks.using(key, { wait: LONG_WAIT_MS }, () => void served.push(i))));
        // The order is that of the acknowledgements: each must be in line before the next one comes.
        while (((await locks.inspect(key))?.waiters?.length ?? i + 1) <= i) await sleep(5);
        await sleep(20);
      }
      await lease.release();
      await Promise.all(waiting);
      assert.deepEqual(served, [0, 1, 2, 3, 4]);
    },
  },
];

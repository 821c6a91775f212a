// Actors through the public API: who may enter again, who is refused at once because it would wait for
// itself, and who waits like a stranger.

import assert from "node:assert/strict";
import type { ApiCase } from "../case.ts";
import { rejectsWith, assertLarger, required } from "../checks.ts";
import { LONG_WAIT_MS, handled, sleep } from "../io.ts";
import { kind } from "../requirements.ts";

export const actorCases: readonly ApiCase[] = [
  {
    id: "actors/reentrant",
    sentence:
      "an actor enters again with the same fence, and the key is free when the last handle has let go",
    promises: ["P3", "P5"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      const outer = await one.acquire(key);
      const inner = await one.acquire(key, { reentrant: true, within: outer });
      assert.equal(inner.fence, outer.fence);
      const third = required(
        await one.tryAcquire(key, { reentrant: true, within: inner }),
        "the third entry",
      );
      assert.equal(await inner.release(), true);
      assert.equal(await outer.release(), true);
      assert.deepEqual([outer.held, inner.held, third.held], [false, false, true]);
      assert.equal(await two.tryAcquire(key), null);
      assert.equal(await third.verify(), true);
      assert.equal(await third.release(), true);
      const next = required(await two.tryAcquire(key), "the key that was let go of");
      assertLarger(outer.fence, next.fence);
    },
  },
  {
    id: "actors/refused",
    sentence: "without reentrant a second acquire by the same actor is refused at once, in any mode",
    promises: ["P15"],
    level: "api",
    needs: [],
    async run(ctx) {
      const locks = await ctx.locks();
      const [key, other] = [ctx.key(), ctx.key()];
      await locks.using(key, async (lease) => {
        const sinceMs = ctx.nowMs();
        await rejectsWith("ERR_LOCK_DEADLOCK", locks.acquire(key, { wait: LONG_WAIT_MS }));
        await rejectsWith(
          "ERR_LOCK_DEADLOCK",
          locks.using([key, other], { reentrant: true }, () => {}),
        );
        assert.equal(await locks.tryAcquire(key), null);
        assert.ok(ctx.nowMs() - sinceMs < ctx.slackMs, "the refusal came late");
        assert.equal(lease.held, true);
      });
      assert.equal(await locks.inspect(key), null);
      assert.equal(await locks.inspect(other), null);
    },
  },
  {
    id: "actors/siblings",
    sentence:
      "siblings inside one scope join its section by reentrant, and exclude each other on every other key",
    promises: ["P1", "P15"],
    level: "api",
    needs: [],
    async run(ctx) {
      const locks = await ctx.locks();
      const [key, other, plain] = [ctx.key(), ctx.key(), ctx.key()];
      let [inside, together, most] = [0, 0, 0];
      const work = async (): Promise<void> => {
        inside += 1;
        most = Math.max(most, inside);
        await sleep(5);
        inside -= 1;
      };
      const fences = new Set<bigint>();
      await locks.using(key, async (outer) => {
        const sibling = async (): Promise<void> => {
          await locks.using(key, { reentrant: true }, async (lease) => {
            fences.add(lease.fence);
            together += 1;
            await sleep(20);
          });
          await locks.using(other, { reentrant: true, wait: LONG_WAIT_MS }, work);
        };
        await Promise.all([sibling(), sibling(), sibling()]);
        const acquires = async (reentrant: boolean): Promise<void> => {
          const lease = await locks.acquire(plain, { reentrant, wait: LONG_WAIT_MS });
          await work();
          await lease.release();
        };
        const first = required(await locks.tryAcquire(plain), "a key that nobody holds");
        assert.equal(await locks.tryAcquire(plain, { reentrant: true }), null);
        const waiting = [acquires(false), acquires(true), acquires(true)];
        await sleep(20);
        await first.release();
        await Promise.all(waiting);
        assert.deepEqual([...fences], [outer.fence]);
      });
      assert.deepEqual([together, most], [3, 1]);
      assert.equal(await locks.inspect(key), null);
    },
  },
  {
    id: "actors/upgrade",
    sentence: "a reader that wants to write is refused at once; a writer may read inside its own section",
    promises: ["P15"],
    level: "api",
    needs: [kind("shared")],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const key = ctx.key();
      await one.using(key, { mode: "shared" }, async () => {
        await rejectsWith("ERR_LOCK_DEADLOCK", one.acquire(key, { reentrant: true, wait: LONG_WAIT_MS }));
        assert.equal(await one.tryAcquire(key, { reentrant: true }), null);
        await one.using(key, { mode: "shared", reentrant: true }, (lease) => {
          assert.equal(lease.mode, "shared");
        });
        required(await two.tryAcquire(key, { mode: "shared" }), "another reader");
      });
      await two.close();
      const writer = await one.acquire(key, { wait: LONG_WAIT_MS });
      const reader = await one.acquire(key, { mode: "shared", reentrant: true, within: writer });
      assert.equal(reader.fence, writer.fence);
      await writer.release();
      assert.equal(reader.held, true);
      await reader.release();
      assert.equal(await one.inspect(key), null);
    },
  },
  {
    id: "actors/permits",
    sentence: "an actor may take more permits of a semaphore while there can be some, and is refused after",
    promises: ["P15"],
    level: "api",
    needs: [kind("semaphore")],
    async run(ctx) {
      const locks = await ctx.locks();
      const key = ctx.key();
      await locks.using(key, { limit: 3 }, async (first) => {
        await locks.using(key, { limit: 3, wait: LONG_WAIT_MS }, async (second) => {
          assert.notEqual(second.fence, first.fence);
          await rejectsWith(
            "ERR_LOCK_DEADLOCK",
            locks.acquire(key, { limit: 3, permits: 2, wait: LONG_WAIT_MS }),
          );
          const again = await locks.acquire(key, { limit: 3, reentrant: true });
          assert.ok([first.fence, second.fence].includes(again.fence), "the re-entry has a fence of its own");
          assert.equal((await locks.inspect(key))?.holders.length, 2);
        });
      });
    },
  },
  {
    id: "actors/detached",
    sentence: "a task that outlived its scope is an actor of its own",
    promises: ["P15"],
    level: "api",
    needs: [],
    async run(ctx) {
      const locks = await ctx.locks();
      const key = ctx.key();
      let detached: Promise<string> = Promise.resolve("");
      const first = await locks.using(key, (lease) => {
        detached = handled(sleep(50).then(() => locks.using(key, { wait: LONG_WAIT_MS }, () => "ran")));
        return lease.fence;
      });
      assert.equal(await detached, "ran");
      assertLarger(first, required(await locks.tryAcquire(key), "the key").fence);
    },
  },
];

// Actors that hold and wait for each other's keys: one of them is refused in time with the whole story, the
// others go on, and nobody is refused who could have waited.

import assert from "node:assert/strict";
import type { AcquireOptions, DeadlockError, Locks } from "../../index.ts";
import type { ApiCase, ProcessCase } from "../case.ts";
import { rejectsWith, required } from "../checks.ts";
import { waitFor, handled, LONG_WAIT_MS, barrier, sleep } from "../io.ts";
import { kind, severalProcesses } from "../requirements.ts";

/** How soon a circle is found (P15). */
const FOUND_MS = 2_000;
const PATIENT = { wait: LONG_WAIT_MS };

interface Outcome {
  readonly label: string;
  readonly refused: DeadlockError | null;
}

/** Holds one key, waits until the others do the same, and wants another. */
async function greedy(
  locks: Locks,
  label: string,
  all: () => Promise<void>,
  [first, second]: readonly [string, string],
  options: { readonly first?: AcquireOptions; readonly second?: AcquireOptions } = {},
): Promise<Outcome> {
  return locks.using(first, { ...PATIENT, label, ...options.first }, async () => {
    await all();
    try {
      await locks.using(second, { ...PATIENT, label, ...options.second }, () => {});
      return { label, refused: null };
    } catch (error) {
      return { label, refused: await rejectsWith<DeadlockError>("ERR_LOCK_DEADLOCK", Promise.reject(error)) };
    }
  });
}

function oneVictim(outcomes: readonly Outcome[]): DeadlockError {
  const refused = outcomes.flatMap((outcome) => outcome.refused ?? []);
  assert.equal(refused.length, 1, `${refused.length} were refused`);
  return refused[0] as DeadlockError;
}

export const deadlockCases: readonly ApiCase[] = [
  {
    id: "deadlocks/circle",
    sentence:
      "two that want each other's key are found over the store: one is told the whole story, the other goes on",
    promises: ["P15"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [a, b] = [ctx.key("a"), ctx.key("b")];
      const events: string[] = [];
      for (const locks of [one, two]) locks.on("deadlock", ({ label }) => events.push(label));
      const sinceMs = ctx.nowMs();
      const all = barrier(2);
      const outcomes = await Promise.all([greedy(one, "one", all, [a, b]), greedy(two, "two", all, [b, a])]);
      const tookMs = ctx.nowMs() - sinceMs;
      assert.ok(tookMs <= FOUND_MS + ctx.slackMs, `it took ${tookMs} ms`);
      const { cycle, message } = oneVictim(outcomes);
      assert.deepEqual(cycle.map((step) => `${step.label} ${step.holds} ${step.waitsFor}`).sort(), [
        `one ${a} ${b}`,
        `two ${b} ${a}`,
      ]);
      assert.match(message, /one holds .* two holds|two holds .* one holds/);
      assert.deepEqual(events, [
        required(
          outcomes.find((one_) => one_.refused !== null),
          "the victim",
        ).label,
      ]);
      // The victim is told before the store: until then the store may choose the victim for the key that
      // the other released.
      const areFree = async (): Promise<boolean> =>
        (await one.inspect(a)) === null && (await one.inspect(b)) === null;
      await waitFor("the end of both keys", areFree);
    },
  },
  {
    id: "deadlocks/shared",
    sentence: "a circle through readers is found",
    promises: ["P15"],
    level: "api",
    needs: [kind("shared")],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [a, b] = [ctx.key("a"), ctx.key("b")];
      const options = { first: { mode: "shared" } } as const;
      const reader = required(await two.tryAcquire(a, { mode: "shared" }), "a reader beside them");
      const all = barrier(2);
      const circle = [greedy(one, "one", all, [a, b], options), greedy(two, "two", all, [b, a], options)];
      await sleep(200);
      await reader.release();
      oneVictim(await Promise.all(circle));
    },
  },
  {
    id: "deadlocks/permits",
    sentence: "a circle through a semaphore is found only when too few permits can come back",
    promises: ["P15"],
    level: "api",
    needs: [kind("semaphore")],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [a, s] = [ctx.key("a"), ctx.key("s")];
      const limit = 3;
      const outside = required(await two.tryAcquire(s, { limit, permits: 2 }), "the permits outside");
      const all = barrier(2);
      const waits = Promise.all([
        greedy(one, "one", all, [s, a], { first: { limit } }),
        greedy(two, "two", all, [a, s], { second: { limit, permits: 2 } }),
      ]);
      await sleep(1_500);
      await outside.release();
      for (const { refused } of await waits) assert.equal(refused, null, refused?.message);
      const again = barrier(2);
      oneVictim(
        await Promise.all([
          greedy(one, "one", again, [s, a], { first: { limit } }),
          greedy(two, "two", again, [a, s], { second: { limit, permits: 3 } }),
        ]),
      );
    },
  },
  {
    id: "deadlocks/no-alarm",
    sentence: "a long chain of waits that ends somewhere alarms nobody, and its notes are gone with it",
    promises: ["P15"],
    level: "api",
    needs: [],
    async run(ctx) {
      const each = [await ctx.locks(), await ctx.locks(), await ctx.locks()];
      const all = barrier(3);
      const keys = [ctx.key("a"), ctx.key("b"), ctx.key("c"), ctx.key("d")] as [
        string,
        string,
        string,
        string,
      ];
      const [one, two, three] = each as [Locks, Locks, Locks];
      const alarms: string[] = [];
      for (const locks of each) locks.on("deadlock", ({ label }) => alarms.push(label));
      let over = false;
      const hold = async (): Promise<void> => {
        while (!over) await sleep(20);
      };
      const end = handled(three.using(keys[3], hold));
      const chain = [
        greedy(one, "one", all, [keys[0], keys[1]]),
        greedy(two, "two", all, [keys[1], keys[2]]),
        greedy(three, "three", all, [keys[2], keys[3]]),
      ];
      await sleep(1_200);
      const noted = async (): Promise<string | undefined> =>
        (await one.inspect(keys[1]))?.holders[0]?.waitingFor;
      try {
        await waitFor("the note of what a holder waits for", async () => (await noted()) !== undefined);
        assert.equal(await noted(), keys[2]);
      } finally {
        over = true;
      }
      for (const { refused } of await Promise.all(chain)) assert.equal(refused, null, refused?.message);
      await end;
      assert.deepEqual(alarms, []);
    },
  },
];

export const deadlockProcessCases: readonly ProcessCase[] = [
  {
    id: "process/deadlock",
    sentence: "three processes in a ring over three keys: found in time, one is refused, the others go on",
    promises: ["P15"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const children = await ctx.children(3);
      const keys = [ctx.key("a"), ctx.key("b"), ctx.key("c")];
      const key = (i: number): string => required(keys[i % 3], "the key");
      await Promise.all(children.map((child, i) => child.call("acquire", { as: "first", key: key(i) })));
      const sinceMs = ctx.nowMs();
      let [victims, tookMs] = [0, 0];
      await Promise.all(
        children.map(async (child, i) => {
          const wants = { as: "second", within: "first", key: key(i + 1), options: PATIENT };
          const refused = await child.call("acquire", wants).then(
            () => null,
            (error: unknown) => error as { readonly code: string; readonly message: string },
          );
          if (refused !== null) {
            [victims, tookMs] = [victims + 1, ctx.nowMs() - sinceMs];
            assert.equal(refused.code, "ERR_LOCK_DEADLOCK", refused.message);
            for (const name of ["child 0", "child 1", "child 2"])
              assert.match(refused.message, new RegExp(name));
          } else await child.call("release", { as: "second" });
          await child.call("release", { as: "first" });
        }),
      );
      assert.equal(victims, 1, `${victims} were refused`);
      assert.ok(tookMs <= FOUND_MS + ctx.slackMs, `it took ${tookMs} ms`);
    },
  },
];

// Simulated worlds from one seed, which must break no promise.

import fc from "fast-check";
import { expect, test } from "vitest";
import { run } from "../../sim/run.ts";
import { type Fault, type SimStoreName, settingsFor } from "../../sim/settings.ts";

const SEED = 20_261_116;

export function testWorlds(counts: readonly (readonly [number, SimStoreName])[]): void {
  test.each(counts)(
    `%i worlds over %s, from seed ${SEED}, break no promise`,
    { timeout: 600_000 },
    async (runs, store) => {
      const sum = { grants: 0, losses: 0 };
      for (const settings of fc.sample(settingsFor(store), { seed: SEED, numRuns: runs })) {
        const { violations, grants, losses } = await run(settings);
        expect(violations, JSON.stringify(settings)).toEqual([]);
        sum.grants += grants;
        sum.losses += losses;
      }
      // A world in which nothing happens proves nothing.
      expect(sum.grants).toBeGreaterThan(runs * 5);
      expect(sum.losses).toBeGreaterThan(runs / 12);
    },
  );
}

const LENGTH_MS = 40_000;
/** While the first client holds the key: all others wait, and nobody else has crashed. */
const WAITING = [5_000, 12_000] as const;
/** P21: of the first waiter, and of all on average from 100 waiters on. */
const MOST_PER_SECOND = { first: 4, average: 1 } as const;

/** One in 50 crashes while it waits, and notifications are lost while the key is passed on. */
export function testCrowd(clients: number): void {
  test(
    `${clients} waiters get the key of Redis in order, and are quiet while they wait`,
    { timeout: 600_000 },
    async () => {
      const crashes = Array.from({ length: clients / 50 }, (_, i): Fault => ({
        kind: "crash",
        at: 320,
        ms: 1,
        client: 3 + 7 * i,
      }));
      const { violations, grants, messages } = await run({
        store: "redis",
        seed: SEED,
        clients,
        tasks: 1,
        keys: 1,
        lengthMs: LENGTH_MS,
        handoffMs: 10,
        ttlMs: 600,
        kinds: "crowd",
        maxDelayMs: 2,
        loss: 0,
        duplication: 0,
        faults: [...crashes, { kind: "lose-pushes", at: 520, ms: 2_000, client: 0 }],
      });
      expect(violations).toEqual([]);
      // Those that crashed are replaced, and the probe asks last.
      expect(grants).toBe(clients + 1);
      const seconds = (WAITING[1] - WAITING[0]) / 1_000;
      const rates = Array.from(
        { length: clients - 1 },
        (_, i) => messages(`c${i + 2}`, ...WAITING) / seconds,
      );
      expect(Math.max(...rates)).toBeLessThanOrEqual(MOST_PER_SECOND.first);
      expect(rates.reduce((sum, rate) => sum + rate, 0) / rates.length).toBeLessThan(MOST_PER_SECOND.average);
    },
  );
}

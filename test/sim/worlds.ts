// Simulated worlds from one seed, which must break no promise.

import fc from "fast-check";
import { expect, test } from "vitest";
import { run } from "../../sim/run.ts";
import { type SimStoreName, settingsFor } from "../../sim/settings.ts";

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

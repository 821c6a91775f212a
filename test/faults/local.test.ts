// A short pass of each client fault over the local store. The long ones are the runs behind docs/evidence.md.
// The wall clock of clients is not among them: its fault needs a C compiler, which a machine with Node alone lacks.

import { describe, expect, it } from "vitest";
import { run } from "../../faults/run.ts";
import { DEFAULTS } from "../../faults/settings.ts";

/** A tenth of what a quiet machine reaches. */
const LEAST = {
  kill: { grants: 25, losses: 1 },
  pause: { grants: 15, losses: 1 },
  "blocked-loop": { grants: 15, losses: 1 },
};

describe("clients of the local store", () => {
  for (const fault of ["kill", "pause", "blocked-loop"] as const) {
    it(`keep every promise under ${fault} (P1 to P17)`, async () => {
      const outcome = await run({ ...DEFAULTS, fault, seconds: 4, seed: 11, clients: 4, cheats: [] });
      expect(outcome.violations, `histories in ${outcome.kept}`).toEqual([]);
      expect(outcome.figures.grants).toBeGreaterThanOrEqual(LEAST[fault].grants);
      expect(outcome.figures.losses).toBeGreaterThanOrEqual(LEAST[fault].losses);
      expect(outcome.figures.strikes).toBeGreaterThan(2);
    });
  }

  it("cannot be struck by a fault of servers that are not there", async () => {
    const settings = { ...DEFAULTS, fault: "server-kill", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/no server of its own/);
  });
});

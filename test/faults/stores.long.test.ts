// Short runs under faults from a seed that is another one each time, on every store and mode.

import { describe, expect, it } from "vitest";
import { run } from "../../faults/run.ts";
import { DEFAULTS } from "../../faults/settings.ts";
import { DEFAULT_MODES, OTHER_MODES, testPasses } from "./passes.ts";

const SEED = Number(process.env["HOLDFAST_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

testPasses({ ...DEFAULT_MODES, ...OTHER_MODES }, SEED);

describe("a store that forgets", () => {
  it("is fenced, not safe, and the overlaps are counted (P3, P4)", { timeout: 90_000 }, async () => {
    const settings = { ...DEFAULTS, store: "redis", fault: "server-wipe", seconds: 6, seed: 3, cheats: [] };
    const { violations, figures, kept } = await run(settings);
    expect(violations, `histories in ${kept}`).toEqual([]);
    expect(figures.expected).toBe("fenced");
    expect(figures.fenceErrors).toBe(0);
    expect(figures.strikes).toBeGreaterThan(0);
  });
});

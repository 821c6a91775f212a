// A short run under faults on every store in its default mode. Other modes and other seeds are in stores.long.test.ts, and
// the long runs of one fault each are behind docs/appendix/evidence.md.

import { describe, expect, it } from "vitest";
import { run } from "../../faults/run.ts";
import { DEFAULTS } from "../../faults/settings.ts";
import { storeModes } from "../../src/stores/registry.ts";
import { targetNames } from "../../faults/targets/index.ts";
import { COVERED, DEFAULT_MODES, OTHER_MODES, testPasses } from "./passes.ts";

const SEED = Number(process.env["HOLDFAST_SEED"] ?? 20_261_116);

testPasses(DEFAULT_MODES, SEED);

it("every store is tried, here, in stores.long.test.ts or by command", () => {
  const tried = [...Object.keys(DEFAULT_MODES), ...Object.keys(OTHER_MODES), ...COVERED];
  expect(tried.toSorted()).toEqual([...targetNames].toSorted());
  // The memory store ends with its process, so that no fault can strike it from outside.
  const outside = storeModes.map(({ name }) => name).filter((name) => name !== "memory");
  expect(tried).toEqual(expect.arrayContaining(outside));
});

describe("a fault that cannot strike", () => {
  it("is refused: no server of its own", async () => {
    const settings = { ...DEFAULTS, fault: "server-kill", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/no server of its own/);
  });

  it("is refused: no way through a proxy", async () => {
    const settings = { ...DEFAULTS, fault: "cut", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/through a proxy/);
  });

  it("is refused: not known, with those that are", async () => {
    const settings = { ...DEFAULTS, fault: "script-flush", seconds: 1, seed: 1, cheats: [] };
    await expect(run(settings)).rejects.toThrow(/no fault script-flush of this store: there are none, kill/);
  });
});

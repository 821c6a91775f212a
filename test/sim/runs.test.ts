import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { run } from "../../sim/run.ts";
import { type SimSettings, settingsArbitrary, settingsFor } from "../../sim/settings.ts";
import { testWorlds } from "./worlds.ts";

const folder = join(import.meta.dirname, "..", "..", "sim", "regressions");

testWorlds([
  [120, "memory"],
  [30, "redis"],
  [20, "redlock"],
]);

test.each(readdirSync(folder))("what once failed stays mended: %s", async (file) => {
  const settings = JSON.parse(readFileSync(join(folder, file), "utf8")) as SimSettings;
  const { violations, grants } = await run(settings);
  expect(violations).toEqual([]);
  expect(grants).toBeGreaterThan(0);
});

test("equal settings give the same history to the letter, other seeds another", async () => {
  const samples = fc.sample(settingsArbitrary, { seed: 7, numRuns: 8 });
  for (const settings of samples) {
    const [one, two] = [await run(settings), await run(settings)];
    expect(two.hash()).toBe(one.hash());
  }
  const [first] = fc.sample(settingsFor("redis"), { seed: 7, numRuns: 1 }) as [SimSettings];
  expect((await run(first)).hash()).toBe((await run(first)).hash());
  const [settings] = samples as [SimSettings];
  const other = await run({ ...settings, seed: settings.seed + 1 });
  expect(other.hash()).not.toBe((await run(settings)).hash());
});

// The embedded scripts are those of the .lua files: whoever changes one must build, or people would run the old one.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { generated, generatedPath } from "../../scripts/lua.mjs";
import { scripts } from "../../src/stores/redis/scripts.generated.ts";

it("the module of scripts is what the .lua files say: run `npm run build` after a change", () => {
  expect(readFileSync(generatedPath, "utf8")).toBe(generated());
});

it("scripts take everything that varies from KEYS and ARGV, so that the server caches a handful of them", () => {
  for (const { name, text } of Object.values(scripts)) {
    expect(text.length, name).toBeLessThan(12_000);
    expect(text, name).not.toContain("--");
  }
});

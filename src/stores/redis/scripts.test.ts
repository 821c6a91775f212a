// The embedded scripts are those of the .lua files: whoever changes one must build, or people would run the old one.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { generated, generatedPath, scriptedStores } from "../../../scripts/lua.mjs";
import { scripts as ofRedis } from "./scripts.generated.ts";
import { scripts as ofRedlock } from "../redlock/scripts.generated.ts";

it.each(scriptedStores)(
  "the module of %s scripts is what the .lua files say: run `npm run build` after a change",
  (store) => {
    expect(readFileSync(generatedPath(store), "utf8")).toBe(generated(store));
  },
);

it("scripts take everything that varies from KEYS and ARGV, so that the server caches a handful of them", () => {
  for (const { name, text } of [...Object.values(ofRedis), ...Object.values(ofRedlock)]) {
    expect(text.length, name).toBeLessThan(24_000);
    expect(text, name).not.toContain("--");
  }
});

// Which test files make up the parts of the tests.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { testParts } from "./test-parts.mjs";

it("links and installed packages are passed over: a link to the project itself would never end", () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-parts-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const folder of ["src", "scripts", "bench/node_modules", "test/stores/redis", "test/cli"])
    mkdirSync(join(root, folder), { recursive: true });
  symlinkSync("../..", join(root, "bench/node_modules/holdfast"));
  symlinkSync("..", join(root, "scripts/link"));
  writeFileSync(join(root, "src/a.test.ts"), "");
  writeFileSync(join(root, "test/cli/a.long.test.ts"), "");
  writeFileSync(join(root, "test/stores/redis/a.test.ts"), "");
  writeFileSync(join(root, "test/stores/redis/b.long.test.ts"), "");
  expect(testParts(root).map(({ name }) => name)).toEqual(["unit", "cli-long", "redis", "redis-long"]);
});

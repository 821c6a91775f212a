// The project's own files against the style rules. A failure prints one line per place, with the remedy.

import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { rules } from "./rules.ts";
import { readTree, show } from "./tree.ts";
import { checkWidth, readRecord } from "./width.ts";

const files = readTree(join(import.meta.dirname, "..", ".."));

describe("the project", () => {
  it("is read at all", () => {
    const paths = files.map((file) => file.path);
    expect(paths).toContain("src/core/store.ts");
    expect(paths).toContain("package-lock.json");
    expect(paths).toContain(".ci/run");
    expect(paths.some((path) => path.includes("node_modules/") || path.startsWith("dist/"))).toBe(false);
  });

  const sentences = {
    imports: "imports only what the import table allows",
    time: "reads time and randomness only through the system",
    functions: "has no function longer than 60 lines",
    headComment: "has a head comment in every source file",
    leftovers: "has no TODO, no test that is switched off and no path of a home directory",
    lockFile: "has lock files that npm ci accepts",
  } as const;
  for (const name of Object.keys(sentences) as (keyof typeof sentences)[]) {
    it(sentences[name], () => {
      expect(files.flatMap((file) => rules[name](file)).map(show)).toEqual([]);
    });
  }

  it("has no more wide lines than recorded, and no fewer", () => {
    expect(checkWidth(files, readRecord()).map(show)).toEqual([]);
  });
});

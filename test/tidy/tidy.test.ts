// The project's own files against the style rules. A failure prints one line per place, with the remedy.

import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { rules } from "./rules.ts";
import { readTree, show } from "./tree.ts";

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
    imports: "imports only what the table of imports allows",
    time: "reaches time and chance through the system only",
    sizes: "has files and functions that can be read at one go, each file with a head comment",
    words: "names no machine, no mirror, nothing unfinished, and no test that does not run",
  } as const;
  for (const name of ["imports", "time", "sizes", "words"] as const) {
    it(sentences[name], () => {
      expect(files.flatMap((file) => rules[name](file)).map(show)).toEqual([]);
    });
  }
});

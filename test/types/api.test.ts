// The public API against its snapshot, api/holdfast.api.txt: a change of the API is a diff that somebody
// reviews.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { apiReport, reportOn } from "../../scripts/api-report.ts";

const SNAPSHOT: string = join(import.meta.dirname, "..", "..", "api", "holdfast.api.txt");

/** Reports on declaration files that are named by their text. */
function reportOnFiles(files: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-api-"));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
    return reportOn([{ name: "sample", file: join(dir, "index.d.ts") }], dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

describe("the public API", () => {
  it("is the one in api/holdfast.api.txt: run npm run api after an intended change", () => {
    expect(apiReport()).toBe(readFileSync(SNAPSHOT, "utf8"));
  });
});

describe("the report on an API", () => {
  const report = reportOnFiles({
    "index.d.ts":
      'export { type Options as Settings, open } from "./inner.js";\nexport declare const SIZE: number;\n',
    "inner.d.ts": [
      "/** A comment. */",
      'import type { Mode } from "./mode.js";',
      "export interface Options {\n    /** Another comment. */\n    readonly mode?: Mode;\n}",
      "export declare function open(url: string): Options;",
      "export declare function open(url: string, options: Options): Options;",
      "export interface Unused {}",
    ].join("\n"),
    "mode.d.ts": 'export type Mode = "a" | "b";\n',
  });

  it("has every exported name with its declaration, sorted and without comments", () => {
    const section = report.slice(report.indexOf("## sample"), report.indexOf("## used"));
    expect(section).toBe(
      [
        "## sample\n",
        "declare const SIZE: number;\n",
        "// exported as Settings\ninterface Options {\n  readonly mode?: Mode;\n}\n",
        "declare function open(url: string): Options;",
        "declare function open(url: string, options: Options): Options;\n\n",
      ].join("\n"),
    );
  });

  it("has the types that an exported declaration uses, and no others", () => {
    expect(report).toContain('exported by no subpath\n\ntype Mode = "a" | "b";\n');
    expect(report).not.toContain("Unused");
  });
});

// Every cell of docs/reference/environments.md, as a test: the packed package in an empty project of each
// environment.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cells, Environments } from "../../scripts/environments/cells.ts";
import { pack } from "../../scripts/packed.ts";
import { builtDir } from "../support/built.ts";

let dir: string;
let environments: Environments;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "holdfast-environments-"));
  environments = new Environments(pack(builtDir(), dir), dir);
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe.each(["Runtimes", "Tools", "TypeScript"])("%s", (group) => {
  it.each(cells.filter((cell) => cell.group === group))("$name", async (cell) => {
    await expect(environments.run(cell)).resolves.toBeUndefined();
  });
});

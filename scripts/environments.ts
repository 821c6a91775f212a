// `npm run environments -- [part of a name ...]`: the packed package in an empty project of every
// environment, as a table in docs/environments.md. Runtimes and tools come from the npm registry, so this
// needs the network. Without names, every cell runs and the page is written. `npm run test:all` runs the
// same cells as tests.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Environments, type Cell, cells } from "./environments/cells.ts";
import { environmentTables, type Outcome } from "./environments/page.ts";
import { writeParts } from "./generated.ts";

const root = join(import.meta.dirname, "..");
const wanted = process.argv.slice(2);
const titleOf = ({ group, name }: Cell): string => `${group}: ${name}`;
const chosen = cells.filter((cell) => wanted.every((part) => titleOf(cell).includes(part)));
const dir = mkdtempSync(join(tmpdir(), "holdfast-environments-"));
const outcomes: Outcome[] = [];
try {
  const environments = new Environments(join(root, "dist"), dir);
  for (const cell of chosen) {
    const startMs = performance.now();
    const failure = await environments.run(cell).then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    outcomes.push({ cell, version: environments.versionOf(cell), isGood: failure === null });
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(0).padStart(4);
    console.log(`${seconds} s  ${failure === null ? "ok    " : "FAILED"}  ${titleOf(cell)}`);
    if (failure !== null) console.log(failure.trimEnd());
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
const failed = outcomes.filter(({ isGood }) => !isGood).length;
if (wanted.length === 0) {
  const tables = environmentTables(outcomes, new Date());
  writeParts(join(root, "docs", "environments.md"), { environments: tables });
}
console.log(`${outcomes.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 || outcomes.length === 0 ? 1 : 0;

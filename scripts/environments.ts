// `npm run environments -- [--minutes N] [--again] [part of a name ...]`: the packed package in an empty
// project of every environment, as a table in docs/reference/environments.md. Runtimes and tools come from
// the npm registry, so this needs the network. `npm run test:all` runs the same cells as tests.
//
// Results are kept per cell, so a run that was stopped goes on where it ended. A cell runs again when it
// failed, when its package, example, script or runtime changed, or with --again. --minutes starts no cell
// after N minutes. The page is written once every cell has a result for the present package.

import { execFileSync } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Environments, type Cell, cells } from "./environments/cells.ts";
import { KeptResults, type Result } from "./environments/kept-results.ts";
import { environmentTables } from "./environments/page.ts";
import { writeParts } from "./generated.ts";

const root = join(import.meta.dirname, "..");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { minutes: { type: "string", default: "Infinity" }, again: { type: "boolean", default: false } },
});
const chosen = cells.filter((cell) => positionals.every((part) => titleOf(cell).includes(part)));
const lastStartMs = performance.now() + Number(values.minutes) * 60_000;
const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
const kept = new KeptResults(join(cache, "holdfast", "environments"), join(root, "dist"));
const environments = new Environments(kept.tarball(), kept.projects);

const wanted = chosen.filter((cell) => values.again || kept.find(cell)?.isGood !== true);
console.log(`${chosen.length} cells, ${chosen.length - wanted.length} of them passed before`);
for (const cell of wanted) if (performance.now() < lastStartMs) await run(cell);

const results = cells.flatMap((cell) => kept.find(cell) ?? []);
if (results.length === cells.length)
  writeParts(join(root, "docs", "reference", "environments.md"), {
    environments: environmentTables(results, packedCommit()),
  });
const inChosen = results.filter(({ cell }) => chosen.includes(cell));
const [missing, failed] = [chosen.length - inChosen.length, inChosen.filter(({ isGood }) => !isGood).length];
console.log(`${inChosen.length - failed} passed, ${failed} failed, ${missing} not run`);
process.exitCode = failed + missing > 0 || chosen.length === 0 ? 1 : 0;

async function run(cell: Cell): Promise<void> {
  const startMs = performance.now();
  const failure = await environments.run(cell).then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(0).padStart(4);
  console.log(`${seconds} s  ${failure === null ? "ok    " : "FAILED"}  ${titleOf(cell)}`);
  if (failure !== null) console.log(failure.trimEnd());
  const version = failure === null ? environments.versionOf(cell) : "";
  const result: Result = { cell, version, isGood: failure === null, date: today() };
  kept.keep(result);
}

function titleOf({ group, name }: Cell): string {
  return `${group}: ${name}`;
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

/** The last commit that changed the package; with a plus sign if the sources differ from it. */
function packedCommit(): string {
  const inputs = ["--", "src", "package.json", "scripts/finish-build.mjs"];
  const git = (...args: string[]): string =>
    execFileSync("git", [...args, ...inputs], { cwd: root, encoding: "utf8" }).trim();
  return git("log", "-1", "--format=%h") + (git("status", "--porcelain") === "" ? "" : "+");
}

// The parts that `npm run check` and `npm test` are made of: what each runs, how long it took, and what its tests counted.
// A part is quiet while it is well and shows everything that it said when it is not.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export const root = join(import.meta.dirname, "..");
const require = createRequire(import.meta.url);
const REPORTER = join(import.meta.dirname, "part-reporter.mjs");

/** @typedef {{ name: string, seconds: number, passed: number, failed: number, output: string }} Part */

const program = (pkg, file) => join(dirname(require.resolve(`${pkg}/package.json`)), file);
export const vitest = program("vitest", "vitest.mjs");

export const build = () => runPart("build", ["scripts/build.mjs"]);

/** What needs no test runner; independent of each other. */
export const statics = [
  () => runPart("types", [program("typescript", "bin/tsc"), "--noEmit", "-p", "tsconfig.json"]),
  () =>
    runPart("page types", [program("typescript", "bin/tsc"), "--noEmit", "-p", "dashboard/tsconfig.json"]),
  () =>
    runPart("decorators", [
      program("typescript", "bin/tsc"),
      ...["--noEmit", "-p", "examples/nestjs/tsconfig.json"],
    ]),
  () => runPart("lint", [program("oxlint", "bin/oxlint"), "--type-aware", "--deny-warnings"]),
  () => runPart("format", [program("oxfmt", "bin/oxfmt"), "--check"]),
  () => runPart("unused", [join(root, "node_modules", "knip", "bin", "knip.js")]),
];

/**
 * Runs parts of the tests in one process of vitest, which shows each part when its last file has ended. When vitest
 * ends without counts, that is a failure of its own.
 * @param {readonly string[]} names
 * @param {Readonly<Record<string, string>>} env
 * @returns {Promise<Part[]>}
 */
export async function runTests(names, env = {}) {
  const scratch = mkdtempSync(join(tmpdir(), "holdfast-counts-"));
  const counts = join(scratch, "counts.json");
  const projects = names.flatMap((name) => ["--project", name]);
  try {
    const child = spawn(
      process.execPath,
      [vitest, "run", "--no-color", `--reporter=${REPORTER}`, ...projects],
      {
        cwd: root,
        env: { ...process.env, ...env, HOLDFAST_TEST_COUNTS: counts },
        stdio: ["ignore", "inherit", "inherit"],
      },
    );
    const code = await new Promise((resolve) => {
      child.once("error", () => resolve(1));
      child.once("close", resolve);
    });
    return withFailure(readCounts(counts), code, names);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function readCounts(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return [];
  }
}

function withFailure(parts, code, names) {
  const missing = names.filter((name) => !parts.some((part) => part.name === name));
  const empty = missing.map((name) => ({ name, seconds: 0, passed: 0, failed: 1, output: "no test ran" }));
  for (const part of empty) showPart(part);
  const all = [...parts, ...empty];
  if (code === 0 || all.some(({ failed }) => failed > 0)) return all;
  const vitestItself = { name: "vitest", seconds: 0, passed: 0, failed: 1, output: `exit code ${code}` };
  showPart(vitestItself);
  return [...all, vitestItself];
}

/** @returns {Promise<Part>} */
export function runPart(name, args) {
  const startedMs = performance.now();
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(process.execPath, args, { cwd: root });
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (output += chunk));
    child.on("error", (error) => (output += `${error}\n`));
    child.on("close", (code, signal) => {
      if (signal !== null) output += `\n${name}: ended by ${signal}\n`;
      const seconds = (performance.now() - startedMs) / 1_000;
      const part = { name, seconds, passed: 0, failed: code === 0 ? 0 : 1, output };
      showPart(part);
      resolve(part);
    });
  });
}

/** One line, and everything the part said if it failed. */
export function showPart({ name, seconds, passed, failed, output }) {
  const counted = passed > 0 ? `, ${passed} passed` : "";
  const state = failed > 0 ? `FAILED (${failed})` : "ok";
  console.log(`${name.padEnd(16)} ${seconds.toFixed(1).padStart(6)} s  ${state}${counted}`);
  if (failed > 0) console.log(output.trimEnd());
}

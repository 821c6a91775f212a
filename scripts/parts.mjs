// The parts that `npm run check` and `npm test` are made of: what each runs, how long it took, and what its tests counted.
// A part is quiet while it is well and shows everything it said when it is not.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { constants, setPriority, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { testParts } from "./test-parts.mjs";

const root = join(import.meta.dirname, "..");
const require = createRequire(import.meta.url);
const LIMIT_MS = 20 * 60_000;

/** @typedef {{ name: string, ok: boolean, seconds: number, output: string, passed: number, failed: number }} Outcome */

const program = (pkg, file) => join(dirname(require.resolve(`${pkg}/package.json`)), file);

export const build = () => run("build", ["scripts/build.mjs"]);

/** What needs no test runner; independent of each other. */
export const statics = [
  () => run("types", [program("typescript", "bin/tsc"), "--noEmit", "-p", "tsconfig.json"]),
  () => run("lint", [program("oxlint", "bin/oxlint"), "--type-aware", "--deny-warnings"]),
  () => run("format", [program("oxfmt", "bin/oxfmt"), "--check"]),
  () => run("unused", [join(root, "node_modules", "knip", "bin", "knip.js")]),
];

/**
 * One folder of tests. A skipped test counts as failed, and so does a folder in which nothing ran. With `nice` it gives way to
 * whatever else runs.
 */
export async function tests(folder, { nice = false } = {}) {
  const scratch = mkdtempSync(join(tmpdir(), "holdfast-report-"));
  const report = join(scratch, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const vitest = program("vitest", "vitest.mjs");
  const outcome = await run(folder, [vitest, "run", "--project", folder, "--no-color", ...reporters], {
    nice,
  });
  const counted = count(report);
  rmSync(scratch, { recursive: true, force: true });
  if (counted.passed + counted.failed === 0) outcome.output += `\n${folder}: no test ran\n`;
  if (counted.skipped > 0)
    outcome.output += `\n${folder}: ${counted.skipped} skipped: run them or delete them\n`;
  outcome.passed = counted.passed;
  outcome.failed = counted.failed + counted.skipped;
  if (outcome.failed === 0 && (!outcome.ok || outcome.passed === 0)) outcome.failed = 1;
  outcome.ok = outcome.failed === 0;
  return outcome;
}

export const allTestParts = () => testParts(root);

/** A file that could not even be loaded has no failed test in it, and is a failure. */
function count(report) {
  let files;
  try {
    files = JSON.parse(readFileSync(report, "utf8")).testResults;
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
  const states = files.flatMap((file) => file.assertionResults.map((one) => one.status));
  const broken = files.filter((file) => file.status === "failed" && !file.assertionResults.some(isFailed));
  const passed = states.filter((state) => state === "passed").length;
  const failed = states.filter((state) => state === "failed").length;
  return { passed, failed: failed + broken.length, skipped: states.length - passed - failed };
}

const isFailed = (result) => result.status === "failed";

/** @returns {Promise<Outcome>} */
function run(name, args, { nice = false } = {}) {
  const started = performance.now();
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(process.execPath, args, { cwd: root, timeout: LIMIT_MS, killSignal: "SIGKILL" });
    if (nice && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (output += chunk));
    child.on("error", (error) => (output += `${error}\n`));
    child.on("close", (code, signal) => {
      if (signal !== null) output += `\n${name}: ended by ${signal}\n`;
      const ok = code === 0;
      resolve({
        name,
        ok,
        seconds: (performance.now() - started) / 1_000,
        output,
        passed: 0,
        failed: ok ? 0 : 1,
      });
    });
  });
}

/** One line, and everything the part said if it failed. */
export function show(outcome) {
  const counted = outcome.passed > 0 ? `, ${outcome.passed} passed` : "";
  const state = outcome.ok ? "ok" : "FAILED";
  console.log(`${outcome.name.padEnd(12)} ${outcome.seconds.toFixed(1).padStart(6)} s  ${state}${counted}`);
  if (!outcome.ok) console.log(outcome.output.trimEnd());
}

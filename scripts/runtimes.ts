// `npm run runtimes -- [--store redis] [--case order/fifo] [--times N] [22 24 26 bun deno mixed]`: the
// conformance suite on other versions of Node, on Bun and on Deno, each with memory, local, redis and
// postgres, and with children of all of them in one directory. `npm test` does not run this: it tests the
// Node that runs it. --case (several times if needed) runs these cases only, each --times times.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runtimeProgram, runtimeVersion } from "./environments/runtimes.ts";

const root = join(import.meta.dirname, "..");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: "string", multiple: true, default: ["memory", "local", "redis", "postgres"] },
    case: { type: "string", multiple: true, default: [] },
    times: { type: "string", default: "1" },
  },
});
const MIXED = ["24", "bun", "deno"];

/** The program and its arguments. */
function commandOf(runtime: string): readonly string[] {
  return [runtimeProgram(runtime), ...(runtime === "deno" ? ["run", "-A"] : [])];
}

function run(title: string, command: readonly string[], store: string, env: NodeJS.ProcessEnv = {}): boolean {
  const startMs = performance.now();
  const [program, ...args] = command as readonly [string, ...string[]];
  const suite = ["scripts/conformance.mjs", store, values.times, ...values.case];
  const { status, stdout, stderr } = spawnSync(program, [...args, ...suite], {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
    encoding: "utf8",
    env: { ...process.env, HOLDFAST_TEST_NODE: process.execPath, ...env },
  });
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(0);
  console.log(`${title.padEnd(24)} ${seconds.padStart(4)} s  ${stdout.trim().split("\n").at(-1) ?? ""}`);
  if (status !== 0) console.log(stdout, stderr);
  return status === 0;
}

function conformance(runtime: string): boolean {
  if (runtime === "mixed") {
    const HOLDFAST_TEST_RUNTIMES = JSON.stringify(MIXED.map(commandOf));
    return run("local, mixed children", [process.execPath], "local", { HOLDFAST_TEST_RUNTIMES });
  }
  const isNode = /^\d/.test(runtime);
  const name = `${isNode ? "node" : runtime} ${runtimeVersion(runtime)}`;
  const results = values.store.map((store) => run(`${store}, ${name}`, commandOf(runtime), store));
  return results.every(Boolean);
}

const wanted = positionals.length > 0 ? positionals : ["22", "24", "26", "bun", "deno", "mixed"];
process.exitCode = wanted.map(conformance).every(Boolean) ? 0 : 1;

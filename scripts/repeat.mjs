// `npm run repeat -- --times 20 [--load] [filters of vitest]`: runs the chosen test files again and again,
// to find a test that fails now and then. `--whole` repeats `npm test` instead. `--load` keeps the machine
// busy meanwhile. One line per round; the output of a round that failed is kept. The exit code is 1 when
// any round failed.
import { spawn } from "node:child_process";
import { createWriteStream, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { startLoad } from "./load.mjs";
import { root, vitest } from "./parts.mjs";
import { readUsage, wholeNumber } from "./usage.mjs";

const USAGE = `npm run repeat -- --times 20 [--load] [filters of vitest]
npm run repeat -- --times 20 [--load] --whole

  --times N   rounds, default 20
  --load      keep the processors and a disk busy meanwhile
  --whole     repeat npm test
  filters     as vitest takes them: test/stores/redis, --project unit, -t "a name"`;

const OPTIONS = {
  times: { type: "string", default: "20" },
  load: { type: "boolean", default: false },
  whole: { type: "boolean", default: false },
  project: { type: "string", multiple: true },
  testNamePattern: { type: "string", short: "t" },
};

function readArguments(args) {
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  const { times, load, whole, project = [], testNamePattern } = values;
  const filters = [
    ...positionals,
    ...project.map((name) => `--project=${name}`),
    ...(testNamePattern === undefined ? [] : ["--testNamePattern", testNamePattern]),
  ];
  if (!whole && filters.length === 0) throw new Error("name the tests to repeat, or say --whole");
  return { load, whole, times: wholeNumber("--times", times, 1), filters };
}

function commandOf({ whole, filters }) {
  return whole ? [join(root, "scripts", "test.mjs")] : [vitest, "run", "--no-color", ...filters];
}

async function runRound(command, log) {
  const out = createWriteStream(log);
  const child = spawn(process.execPath, command, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.pipe(out, { end: false });
  child.stderr.pipe(out, { end: false });
  const [code, signal] = await once(child, "close");
  out.end();
  await once(out, "finish");
  return signal ?? code;
}

const given = readUsage(USAGE, readArguments);
const { times } = given;

const folder = join(root, ".tmp", "repeat");
mkdirSync(folder, { recursive: true });
const logs = mkdtempSync(join(folder, "run-"));
const load = given.load ? startLoad() : null;
const failures = [];
const startedMs = performance.now();
const minutesSince = (ms) => ((performance.now() - ms) / 60_000).toFixed(2);
try {
  for (let round = 1; round <= times; round += 1) {
    const log = join(logs, `round-${round}.log`);
    const roundMs = performance.now();
    const code = await runRound(commandOf(given), log);
    const isFailed = code !== 0;
    if (isFailed) failures.push(log);
    else rmSync(log);
    const state = isFailed ? `FAILED (${code}), output in ${relative(root, log)}` : "ok";
    console.log(`round ${String(round).padStart(3)} of ${times}  ${minutesSince(roundMs)} min  ${state}`);
  }
} finally {
  load?.stop();
  if (failures.length === 0) rmSync(logs, { recursive: true, force: true });
}
console.log(`\n${times} rounds in ${minutesSince(startedMs)} min${given.load ? " beside load" : ""}`);
for (const log of failures) console.log(`failed: ${relative(root, log)}`);
console.log(`${times - failures.length} passed, ${failures.length} failed`);
process.exitCode = failures.length > 0 ? 1 : 0;

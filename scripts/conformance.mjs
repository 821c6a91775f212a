// `RUNTIME scripts/conformance.mjs memory|local|redis|postgres [times [case ...]]`: the conformance suite on
// the compiled package, without a test runner, so that every runtime can run it. The last line is
// `N passed, N failed, N repeated after a stall`.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { local, localGuarantees } from "../dist/stores/local/index.js";
import { memory } from "../dist/stores/memory/index.js";
import { postgres } from "../dist/stores/postgres/index.js";
import { redis } from "../dist/stores/redis/index.js";
import { allCases, planFor, runCase, titleOf } from "../dist/testing/index.js";

const dir = mkdtempSync(join(tmpdir(), "hf-"));
/** Cases mostly wait, so several run beside each other, except on memory, whose store is one for all. */
const CONCURRENT_CASES = 4;

const subjects = {
  memory: async () => {
    const store = memory();
    return { subject: { name: "memory", guarantees: store.guarantees, create: () => store } };
  },
  local: async () => ({
    subject: {
      name: "local",
      guarantees: localGuarantees,
      create: () => local({ dir }),
      child: () => ({ url: `local:${dir}` }),
      footprint: () => readdirSync(dir, { recursive: true }).length,
    },
  }),
  redis: () => onServer("redis", (url) => redis({ url, driver: "redis" })),
  postgres: () => onServer("postgres", (url) => postgres({ url })),
};

/** The server runs in a process of Node: what is tested here is the client. */
async function onServer(name, open) {
  const node = process.env.HOLDFAST_TEST_NODE ?? process.execPath;
  const args = ["--import", "tsx", join(import.meta.dirname, "conformance-server.ts"), name];
  const helper = spawn(node, args, { stdio: ["pipe", "pipe", "inherit"] });
  const answers = [];
  createInterface({ input: helper.stdout }).on("line", (line) => answers.shift()?.(JSON.parse(line)));
  const ask = (line) =>
    new Promise((resolve) => {
      answers.push(resolve);
      helper.stdin.write(`${line}\n`);
    });
  const url = await ask("start");
  return {
    subject: {
      name,
      guarantees: open(url).guarantees,
      create: () => open(url),
      child: () => ({ url }),
      footprint: (namespace) => ask(`footprint ${namespace}`),
    },
    server: { restart: () => ask("restart") },
    end: () =>
      new Promise((resolve) => {
        helper.once("exit", resolve);
        helper.stdin.end();
      }),
  };
}

const [name, times = "1", ...ids] = process.argv.slice(2);
const make = subjects[name];
if (make === undefined) {
  console.error(`usage: scripts/conformance.mjs ${Object.keys(subjects).join("|")} [times [case ...]]`);
  process.exit(64);
}
const { subject, server, end } = await make();
const selected = new Set(planFor(subject.guarantees).run);
const suite = allCases.filter(({ id }) => selected.has(id) && (ids.length === 0 || ids.includes(id)));
const chosen = Array.from({ length: Number(times) }, () => suite).flat();
let [passed, failed, repeated] = [0, 0, 0];
// The suite warns of every case that it repeats.
const warn = console.warn;
console.warn = (...args) => {
  repeated += 1;
  warn(...args);
};

async function run(one) {
  try {
    await runCase(one, subject, server);
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${titleOf(one)}\n${error?.stack ?? error}`);
  }
}

/** They restart the server, count what it keeps, or occupy the event loop. */
const ALONE = ["fences/server-restart", "hygiene/memory-per-name", "api/blocked-event-loop", "api/crowd"];
const beside = server === undefined ? [] : chosen.filter(({ id }) => !ALONE.includes(id));
const alone = chosen.filter((one) => !beside.includes(one));
const queue = beside.values();
await Promise.all(
  Array.from({ length: CONCURRENT_CASES }, async () => {
    for (const one of queue) await run(one);
  }),
);
for (const one of alone) await run(one);
await end?.();
rmSync(dir, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed, ${repeated} repeated after a stall`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);

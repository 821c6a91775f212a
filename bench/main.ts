// `npm run bench -- local`: runs one suite and writes its line of bench/results.jsonl.
// `npm run bench -- --all`: runs every suite, then writes the pages.
// `npm run bench -- --report`: writes the pages from the recorded results.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { readUsage } from "../scripts/usage.mjs";
import { writeSuiteResult } from "./results.ts";

const SUITES: Readonly<Record<string, () => Promise<{ run(): Promise<object> }>>> = {
  actors: () => import("./actors.ts"),
  core: () => import("./core.ts"),
  elections: () => import("./elections.ts"),
  etcd: () => import("./etcd.ts"),
  local: () => import("./local.ts"),
  losses: () => import("./losses.ts"),
  mysql: () => import("./mysql.ts"),
  "scale-mysql": () => import("./scale-mysql.ts"),
  postgres: () => import("./postgres.ts"),
  redis: () => import("./redis.ts"),
  redlock: () => import("./redlock.ts"),
  scale: () => import("./scale.ts"),
  tracing: () => import("./tracing.ts"),
  zookeeper: () => import("./zookeeper.ts"),
};

const here = import.meta.dirname;

function installPeers(): void {
  if (existsSync(join(here, "node_modules"))) return;
  console.error("installing the peers (once)");
  execFileSync("npm", ["ci", "--prefix", here, "--ignore-scripts"], { stdio: "inherit" });
}

async function measure(name: string): Promise<void> {
  const { run } = await (SUITES[name] as (typeof SUITES)[string])();
  const figures = await run();
  const machine = { node: process.version, cores: availableParallelism(), platform: process.platform };
  const measured = new Date().toISOString().slice(0, 10);
  writeSuiteResult({ suite: name, measured, machine, ...figures });
  console.log(`\nwritten to bench/results.jsonl: ${name}`);
}

/** Each suite in a process of its own: what one leaves behind must not slow the next. */
function measureAll(): void {
  for (const name of Object.keys(SUITES)) {
    console.log(`\n${name}`);
    execFileSync(process.execPath, [...process.execArgv, import.meta.filename, name], { stdio: "inherit" });
  }
}

const wishes = ["--all", "--report", ...Object.keys(SUITES)];
const wish = readUsage(`usage: npm run bench -- ${Object.keys(SUITES).join("|")}|--all|--report`, (args) => {
  const [first, ...others] = args;
  if (first === undefined) throw new Error("name a suite, or say --all or --report");
  const wrong = wishes.includes(first) ? others[0] : first;
  if (wrong !== undefined) throw new Error(`there is no suite ${wrong}`);
  return first;
});
if (wish === "--report") (await import("./report/index.ts")).report();
else if (wish === "--all") {
  measureAll();
  (await import("./report/index.ts")).report();
} else {
  installPeers();
  await measure(wish);
}

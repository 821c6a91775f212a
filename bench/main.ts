// `npm run bench -- local`: one run, ours beside the peers and the bare limit. Writes bench/results/<name>.json.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

const SUITES: Readonly<Record<string, () => Promise<{ run(): Promise<object> }>>> = {
  actors: () => import("./actors.ts"),
  elections: () => import("./elections.ts"),
  etcd: () => import("./etcd.ts"),
  local: () => import("./local.ts"),
  mysql: () => import("./mysql.ts"),
  postgres: () => import("./postgres.ts"),
  redis: () => import("./redis.ts"),
  redlock: () => import("./redlock.ts"),
  zookeeper: () => import("./zookeeper.ts"),
};

const name = process.argv[2] ?? "";
const load = SUITES[name];
if (load === undefined) {
  console.error(`usage: npm run bench -- ${Object.keys(SUITES).join("|")}`);
  process.exit(64);
}
const here = import.meta.dirname;
if (!existsSync(join(here, "node_modules"))) {
  console.error("installing the peers (once)");
  execFileSync("npm", ["ci", "--prefix", here, "--ignore-scripts"], { stdio: "inherit" });
}
const { run } = await load();
const figures = await run();
const file = join(here, "results", `${name}.json`);
mkdirSync(join(here, "results"), { recursive: true });
const machine = { node: process.version, cores: availableParallelism(), platform: process.platform };
writeFileSync(
  file,
  `${JSON.stringify({ measured: new Date().toISOString().slice(0, 10), machine, ...figures }, null, 2)}\n`,
);
console.log(`\nwritten to bench/results/${name}.json`);

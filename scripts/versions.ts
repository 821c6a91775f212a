// `npm run versions -- redis-valkey zookeeper-newest`: the conformance suite of a store on one version of its
// servers. Writes scripts/versions.jsonl, and docs/appendix/versions.md from that file and the fault runs.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readResults } from "../faults/results.ts";
import { figure, markdownTable } from "./generated.ts";
import { putJsonLine, readJsonLines } from "./json-lines.ts";
import { ranNow, type RanNow } from "./ran-now.ts";
import { readUsage } from "./usage.mjs";

const ROOT: string = join(import.meta.dirname, "..");
const FILE: string = join(import.meta.dirname, "versions.jsonl");
const PAGE: string = join(ROOT, "docs", "appendix", "versions.md");

interface Row {
  readonly store: string;
  /** The test file of the suite. */
  readonly suite: string;
  readonly env: Readonly<Record<string, string>>;
  /** The store of the fault runs that can say which version it runs on; null where the suite names it. */
  readonly target: string | null;
}

const NEWEST = { HOLDFAST_TEST_NEWEST: "1" };
const VALKEY = { ...NEWEST, HOLDFAST_TEST_REDIS_PROGRAM: "valkey-server" };
const suite = (name: string): string => join("test", "stores", `${name}.test.ts`);

const BASE: Readonly<Record<string, string>> = {
  redis: suite("redis/conformance"),
  "redis-cluster": suite("redis/conformance-cluster.long"),
  "redis-sentinel": suite("redis/conformance-sentinel.long"),
  redlock: suite("redlock/conformance"),
  postgres: suite("postgres/conformance"),
  "postgres-advisory": suite("postgres/conformance-advisory.long"),
  mysql: suite("mysql/conformance"),
  "mysql-row": suite("mysql/conformance-row.long"),
  etcd: suite("etcd/conformance"),
  zookeeper: suite("zookeeper/conformance"),
};
const REDIS_STORES = ["redis", "redis-cluster", "redis-sentinel", "redlock"];

const ROWS: Readonly<Record<string, Row>> = Object.fromEntries([
  ...Object.entries(BASE).flatMap(([store, file]): [string, Row][] => [
    [store, { store, suite: file, env: {}, target: store }],
    [`${store}-newest`, { store, suite: file, env: NEWEST, target: store }],
  ]),
  ...REDIS_STORES.map((store): [string, Row] => [
    `${store}-valkey`,
    { store, suite: BASE[store] as string, env: VALKEY, target: store },
  ]),
  ["mysql-mysql9", { store: "mysql", suite: suite("mysql/conformance-mysql9.long"), env: {}, target: null }],
]);

export interface Conformance extends RanNow {
  readonly row: string;
  readonly store: string;
  readonly server: string;
  readonly passed: number;
  readonly failed: number;
  readonly seconds: number;
}

const USAGE = `npm run versions -- ROW... | --report

Runs the conformance suite of a store on a version of its servers, and writes docs/appendix/versions.md.
\`-newest\`: the newest version of Debian's suite sid. A row without it: the version of this system.

  ${Object.keys(ROWS).join("\n  ")}`;

const asked = readUsage(USAGE, (args) => {
  const wrong = args.find((name) => name !== "--report" && !Object.hasOwn(ROWS, name));
  if (wrong !== undefined) throw new Error(`there is no row ${wrong}`);
  if (args.length === 0) throw new Error("name a row, or say --report");
  return args.filter((name) => name !== "--report");
});
function measure(row: string, { store, suite: file, env, target }: Row): void {
  const startedMs = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "holdfast-versions-"));
  const output = join(folder, "results.json");
  const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
  const args = [vitest, "run", file, "--reporter=default", "--reporter=json", `--outputFile.json=${output}`];
  const options = { cwd: ROOT, env: { ...process.env, ...env } };
  try {
    spawnSync(process.execPath, args, { ...options, stdio: "inherit" });
    const said = JSON.parse(readFileSync(output, "utf8")) as {
      readonly numPassedTests: number;
      readonly numFailedTests: number;
    };
    const [passed, failed] = [said.numPassedTests, said.numFailedTests];
    if (passed + failed === 0) throw new Error(`${row}: no case was run`);
    const server = target === null ? mysqlVersion() : versionOf(target, env);
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    const result: Conformance = { row, store, server, passed, failed, seconds, ...ranNow() };
    putJsonLine(FILE, result, (one) => `${one.store} ${one.server}`);
    console.log(`${row}: ${server}, ${passed} passed, ${failed} failed`);
    if (failed > 0) process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** In a process of its own: which programs are used is decided when the modules are loaded. */
function versionOf(target: string, env: Readonly<Record<string, string>>): string {
  return ask(
    `import { targetNamed } from "./faults/targets/index.ts";
    import { mkdtempSync } from "node:fs";
    const folder = mkdtempSync("/tmp/holdfast-version-");
    const target = await targetNamed(${JSON.stringify(target)})(folder, "none");
    console.log(target.version);
    await target.stop();`,
    env,
  );
}

function mysqlVersion(): string {
  return ask(
    `import { mysqlProgram } from "./scripts/servers/mysql.ts";
    import { findProgram } from "./scripts/servers/packages.ts";
    import { execFileSync } from "node:child_process";
    const { path, args = [], env } = await findProgram(mysqlProgram);
    const options = { env: { ...process.env, ...env }, encoding: "utf8" };
    const said = execFileSync(path, [...args, "--version"], options);
    console.log("MySQL", /Ver (\\S+)/.exec(said)?.[1]);`,
    {},
  );
}

function ask(program: string, env: Readonly<Record<string, string>>): string {
  const args = ["--import", "tsx", "--input-type=module", "--eval", program];
  const said = execFileSync(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    encoding: "utf8",
  });
  return said.trim().split("\n").at(-1) ?? "";
}

const HEAD = `# Versions

What was run on which version of which server. Nothing else is claimed. \`npm run versions -- ROW\` runs the
conformance suite and generates this page, and \`npm run versions -- --help\` lists the rows. The fault runs
are those of [Evidence](evidence.md).

Servers come from the packages of Debian 12, or from Debian's suite sid for newer versions:

- \`HOLDFAST_TEST_NEWEST=1\` in the environment starts the newest version of every server.
- \`HOLDFAST_TEST_REDIS_PROGRAM=valkey-server\` starts Valkey in the place of Redis.
- \`HOLDFAST_TEST_REDIS\`, \`HOLDFAST_TEST_POSTGRES\`, \`HOLDFAST_TEST_MYSQL\`, \`HOLDFAST_TEST_ETCD\` and
  \`HOLDFAST_TEST_ZOOKEEPER\` name a running server by URL. Tests that restart a server start their own.

All of them work for every test; the first two also for every fault run.
`;

function report(): void {
  const conformance = readJsonLines<Conformance>(FILE);
  const faults = readResults();
  const nameOf = (store: string, server: string): string => `${store}\n${server}`;
  const names = new Set([
    ...conformance.map(({ store, server }) => nameOf(store, server)),
    ...faults.map(({ store, versions }) => nameOf(store, versions.server ?? "")),
  ]);
  const rows = [...names].toSorted().map((name) => {
    const [store = "", server = ""] = name.split("\n");
    const suiteRun = conformance.find((one) => one.store === store && one.server === server);
    const runs = faults.filter((one) => one.store === store && (one.versions.server ?? "") === server);
    const seconds = runs.reduce((sum, one) => sum + one.seconds, 0);
    const violations = runs.reduce((sum, one) => sum + one.violations, 0);
    return [
      store,
      server === "" ? "none" : server,
      suiteRun === undefined ? "not run" : `${suiteRun.passed} passed, ${suiteRun.failed} failed`,
      runs.length === 0
        ? "not run"
        : `${runs.length} ${runs.length === 1 ? "run" : "runs"}, ${(seconds / 60).toFixed(1)} minutes`,
      runs.length === 0 ? "" : figure(violations),
      [
        ...new Set([...runs, ...(suiteRun === undefined ? [] : [suiteRun])].map(({ measured }) => measured)),
      ].join(", "),
    ];
  });
  const table = markdownTable(["store", "server", "conformance", "fault runs", "violations", "day"], rows);
  writeFileSync(PAGE, `${HEAD}\n${table}\n`);
}

for (const name of asked) measure(name, ROWS[name] as Row);
report();

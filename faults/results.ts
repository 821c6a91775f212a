// The results of fault runs, faults/results.jsonl with one line per store, fault and seed, and the page made
// of them. The page claims nothing that is not in that file.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { putJsonLine, readJsonLines } from "../scripts/json-lines.ts";
import type { Figures } from "./figures.ts";
import { matrix } from "./matrix.ts";
import { moreEvidence } from "./more-evidence.ts";
import type { RunSettings } from "./settings.ts";

const ROOT: string = join(import.meta.dirname, "..");
const FILE: string = join(import.meta.dirname, "results.jsonl");
const PAGE: string = join(ROOT, "docs", "appendix", "evidence.md");

export interface Result extends Figures {
  readonly store: string;
  readonly fault: string;
  readonly seed: number;
  readonly seconds: number;
  readonly clients: number;
  /** The day of the run. */
  readonly measured: string;
  readonly versions: Versions;
}

export interface Versions {
  readonly node: string;
  readonly holdfast: string;
  /** Git's hash of `src`: `git rev-parse COMMIT:src` of the commit that was run. */
  readonly source: string;
  readonly server?: string;
}

/** The dot sorts a fault after those that extend its name: `cut-replies` comes before `cut`. */
export const runOf = ({ store, fault, seed }: Result): string => `${store}-${fault}. ${seed}`;

export function writeResult(settings: RunSettings, figures: Figures, server: string | null): void {
  const { store, fault, seed, seconds, clients } = settings;
  const { measured, versions: own } = ranNow();
  const versions = server === null ? own : { ...own, server };
  const result: Result = { store, fault, seed, seconds, clients, measured, versions, ...figures };
  putJsonLine(FILE, result, runOf);
}

/** The day, and what runs on our side of the connection. */
export function ranNow(): Pick<Result, "measured" | "versions"> {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const git = (...args: readonly string[]): string =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "--", "src") === "" ? "" : " changed";
  const source = git("rev-parse", "HEAD:src").slice(0, 12) + changed;
  const versions = { node: process.version, holdfast: manifest.version, source };
  return { measured: new Date().toISOString().slice(0, 10), versions };
}

export function writePage(): void {
  writeFileSync(PAGE, page(readResults()) + moreEvidence());
}

export function readResults(): Result[] {
  return readJsonLines<Result>(FILE);
}

const HEAD = `# Evidence

Real processes under real faults. Each run starts client processes that take leases of 300 to 1,500 ms of every kind, act on
a register behind a fence guard and on one without, renew and let go, while one kind of fault strikes them; a separate
process owns the registers and keeps its own log. All processes write down what they believed and when, on the clock that
they share. Afterwards the histories are merged and judged by the checkers that the simulator uses: exclusion (P1), honest
windows (P2), fences (P3), the guarded register (P4), ownership (P5, P6), losses told in time (P7), one named outcome per
request (P8, P9, P17), recovery once the faults stop (P10), bounds (P13), nothing left (P16). Any violation fails the run.

To repeat a row, or all rows of a store, and to make this page again:

\`\`\`sh
npm run faults -- --store local --fault pause --seconds 40 --seed 1
npm run faults -- --store local --all
npm run faults -- --missing --seconds 20
npm run faults -- --report
npm run faults -- --help
\`\`\`

A seed repeats the plan of a run: who asks for what, and when which fault strikes. The machine's scheduling is its own. A
run that fails keeps its histories, prints where they are, and takes the place of the good one in this table.
\`full-disk\`: ENOSPC for whatever would make a file of the store's servers grow; those that end themselves,
or wait, are started again once there is room. A strike that nobody was refused in fails the run. \`no-space\`: the same for etcd, by the quota of its database.
\`shutdown\`: SIGTERM in the middle of the work; the client closes its locks with a drain of 100 ms and
ends by itself. \`close\` may take 2 s beyond the drain while its process runs, else the run fails (P13).
\`half-open\`: connections that exist fall silent, and new ones work.
That the checkers see what they should is itself tested, with clients that lie in one way each (\`test/faults/self-check.long.test.ts\`).
`;

const NOTES = `
*expected*: what the store's guarantees say of that fault. *safe*: no two holders believe at once. *fenced*: they may, and then
the fence must keep the guarded register right; overlaps are counted, and every other promise is held against the store.
*losses*: leases that ended against their holder's will, by a kill, by a pause longer than the lease, or by \`maxHold\` and
\`renew: false\`, which some requests use. *stale writes refused*: what the guard kept out. *lost updates without guard*: what the
same faults did to the register that has none; no lock can prevent these, the fence can. *longest recovery*: from the fault
that hit a holder until somebody who waited had its key. *longest loop delay*: of clients that nobody had stopped, on a machine
that ran other things too. A time in which a client's event loop did not turn, for whatever reason, is not held against
P7, P8, P10 and P13, nor a time in which the whole machine stood still against P10 and P13; neither ever excuses an overlap or a fence.
A wall clock that was set between a grant and its holder's first look ends the lease at once; that is not held against P8.

One failure is not in the table: a run of \`member-restart\` on ZooKeeper (seed 11), on an overloaded machine, in which keys stayed taken
for 45 s after three changes of the leader, by places in line that no process knew of (P10). Repeats of the same seed were clean; the table has the last one.
What fits it is a server that shows nodes which the others have deleted, as ZooKeeper before 3.9.4 has them now and then after a leader was lost. Such a
server, made on purpose, did the same to waiters; it is noticed and left since then (\`test/stores/zookeeper/diverged.long.test.ts\`).

Faults that have to take hold are made sure of, else the run fails: \`server-clock\` asks every server for its time before it begins; \`eviction\`
counts what was evicted and was not its own junk; \`lock-wait\` looks for a session that waits for a row.

Not tried: \`server-clock\` on etcd. A library in front of the C library moves the clock of one process, and etcd is a Go program that asks the kernel itself.
Setting the machine's own clock would move the clients' and everybody else's. That leases count from readings of the monotonic clock is known from etcd's source only.
\`eviction\` on the other stores: they do not evict.
`;

const COLUMNS: readonly (readonly [title: string, show: (result: Result) => string])[] = [
  ["store", ({ store }) => store],
  ["fault", ({ fault }) => fault],
  ["expected", ({ expected }) => expected],
  ["seconds", ({ seconds }) => String(seconds)],
  ["seed", ({ seed }) => String(seed)],
  ["strikes", ({ strikes }) => number(strikes)],
  ["grants", ({ grants }) => number(grants)],
  ["losses", ({ losses }) => number(losses)],
  ["overlaps (P1)", ({ overlaps }) => number(overlaps)],
  ["fence errors (P3)", ({ fenceErrors }) => number(fenceErrors)],
  ["all violations", ({ violations }) => number(violations)],
  ["stale writes refused", ({ staleWritesRefused }) => number(staleWritesRefused)],
  ["lost updates without guard", ({ lostUpdatesWithoutGuard }) => number(lostUpdatesWithoutGuard)],
  ["longest recovery", ({ longestRecoveryMs }) => `${number(longestRecoveryMs)} ms`],
  [
    "longest close beyond its drain",
    ({ longestCloseMs }) => (longestCloseMs ? `${number(longestCloseMs)} ms` : ""),
  ],
  ["longest loop delay", ({ longestLoopDelayMs }) => `${number(longestLoopDelayMs)} ms`],
  [
    "versions",
    ({ versions: { holdfast, server, node } }) =>
      [`holdfast ${holdfast}`, server, `Node ${node}`].filter(Boolean).join(", "),
  ],
];

const number = (value: number): string => value.toLocaleString("en");
const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

export function page(results: readonly Result[]): string {
  const titles = row(COLUMNS.map(([title]) => title));
  const rule = `|${"---|".repeat(COLUMNS.length)}`;
  const rows = results.map((result) => row(COLUMNS.map(([, show]) => show(result))));
  return [HEAD + matrix(results), "## Every run", "", titles, rule, ...rows, NOTES].join("\n");
}

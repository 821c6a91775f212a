// The results of fault runs, faults/results.jsonl with one line per store, fault and seed, and the page made
// of them. The page claims nothing that is not in that file.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { markdownTable } from "../scripts/generated.ts";
import { putJsonLine, readJsonLines } from "../scripts/json-lines.ts";
import { ranNow, type RanNow } from "../scripts/ran-now.ts";
import type { Figures } from "./figures.ts";
import { matrix, totals } from "./matrix.ts";
import { moreEvidence } from "./more-evidence.ts";
import type { RunSettings } from "./settings.ts";

const ROOT: string = join(import.meta.dirname, "..");
const FILE: string = join(import.meta.dirname, "results.jsonl");
const PAGE: string = join(ROOT, "docs", "appendix", "evidence.md");

export interface Result extends Figures, RanNow {
  readonly store: string;
  readonly fault: string;
  readonly seed: number;
  readonly seconds: number;
  readonly clients: number;
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

export function writePage(): void {
  writeFileSync(PAGE, page(readResults()) + moreEvidence());
}

export function readResults(): Result[] {
  return readJsonLines<Result>(FILE);
}

const HEAD = `# Evidence

Real processes run under real faults. Each run starts client processes that take leases of 300 to 1,500 ms of
every kind. They write to a register behind a fence guard and to a register without one, renew and release.
One kind of fault strikes meanwhile. A separate process owns the registers and keeps its own log. All
processes record what they believed and when, on the clock that they share.

After the run the histories are merged and judged by the checkers of the simulator: exclusion (P1), windows
(P2), fences (P3), the guarded register (P4), ownership (P5, P6), timely losses (P7), one named outcome per
request (P8, P9, P17), recovery after the faults (P10), bounds (P13) and nothing left behind (P16). Any
violation fails the run. Clients that lie in one way each test the checkers
(\`test/faults/self-check.long.test.ts\`).

These commands repeat a run, run all faults of a store, run what has no result yet, and generate this page:

\`\`\`sh
npm run faults -- --store local --fault pause --seconds 40 --seed 1
npm run faults -- --store local --all
npm run faults -- --missing --seconds 20
npm run faults -- --report
\`\`\`

A seed repeats the plan of a run: the requests, and when which fault strikes. It does not repeat the
scheduling of the machine. A run that fails keeps its histories and is listed below like any other. The runs
of earlier versions are in the history of \`faults/results.jsonl\`.
`;

const NOTES = `
The columns:

- *expected*: what the guarantees of the store say of that fault. *safe*: no two holders believe at once.
  *fenced*: two holders may believe at once, and the fence keeps the guarded register right. Overlaps are
  counted, and every other promise is checked.
- *losses*: leases that ended against the will of their holder: by a kill, by a pause longer than the lease,
  or by \`maxHold\` and \`renew: false\`, which some requests use.
- *stale writes refused*: what the guard rejected. *lost updates without guard*: what the same faults did to
  the register that has no guard. No lock can prevent these, the fence can.
- *longest recovery*: from the fault that hit a holder until a waiter had its key.
- *longest loop delay*: of clients that no fault had stopped, on a machine that ran other programs too. A time
  in which the event loop of a client did not turn is not held against P7, P8, P10 and P13. A time in which
  the whole machine stood still is not held against P10 and P13. Neither excuses an overlap or a fence.

Some faults need a word:

- \`full-disk\`: ENOSPC for every write that makes a file of the servers of the store grow. A strike that
  rejected no write fails the run. \`no-space\` does the same to etcd, through the quota of its database.
- \`shutdown\`: SIGTERM during work. The client closes its locks with a drain of 100 ms. \`close\` may take
  2 s beyond the drain while its process runs (P13).
- \`half-open\`: existing connections fall silent, and new ones work.
- \`server-clock\` asks every server for its time before it begins. \`eviction\` counts the keys of holdfast
  that were evicted. \`lock-wait\` looks for a session that waits for a row. Each fails the run if the fault
  did not take hold.
- A wall clock that is set between a grant and the first look of its holder ends the lease at once. That is
  not held against P8.

Not tried: \`server-clock\` on etcd. A library in front of the C library moves the clock, and etcd asks the
kernel itself. That its leases count from the monotonic clock is known from its source only.
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
  ["day", ({ measured }) => measured],
  ["src", ({ versions: { source } }) => source],
  ["server", ({ versions: { server } }) => server ?? ""],
];

const number = (value: number): string => value.toLocaleString("en");

export function page(results: readonly Result[]): string {
  const table = markdownTable(
    COLUMNS.map(([title]) => title),
    results.map((result) => COLUMNS.map(([, show]) => show(result))),
  );
  return [HEAD + totals(results) + matrix(results), "## Every run", "", table, NOTES].join("\n");
}

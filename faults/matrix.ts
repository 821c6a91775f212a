// The runs in sum: totals for each store, and a table with a line for each fault and a column for each store.

import { figure, markdownTable } from "../scripts/generated.ts";
import type { Result } from "./results.ts";

const NONE = "none";
const EMPTY = "·";

const LEGEND = `
A cell is the number of grants in all runs of that fault. Without brackets: the store must be safe, and no two
holders believed at once. With brackets: the store leaves the fault to the fence, two holders believed at once
so many times, and the guarded register stayed right. **In bold**: so many promises were broken.
\`${EMPTY}\`: no run. The fault cannot happen to that store, has another name there, or was not tried.

Network faults go through a proxy between each client and each server. Where servers tell clients where to
connect, as Sentinel and Cluster do, the proxies name themselves instead. \`redlock-aof\`, \`redlock-rdb\` and
\`mysql-pair\` are other setups of their store.
`;

const sumOf = (results: readonly Result[], pick: (one: Result) => number): number =>
  results.reduce((sum, one) => sum + pick(one), 0);

const distinct = (names: readonly string[]): string[] => [...new Set(names)].sort();

const SUMS: readonly (readonly [title: string, show: (results: readonly Result[]) => string])[] = [
  ["runs", (results) => figure(results.length)],
  ["faults", (results) => figure(distinct(results.map(({ fault }) => fault)).length)],
  ["minutes of faults", (results) => (sumOf(results, ({ seconds }) => seconds) / 60).toFixed(1)],
  ["strikes", (results) => figure(sumOf(results, ({ strikes }) => strikes))],
  ["grants", (results) => figure(sumOf(results, ({ grants }) => grants))],
  ["losses", (results) => figure(sumOf(results, ({ losses }) => losses))],
  ["overlaps where safe", (results) => overlaps(results, "safe")],
  ["overlaps where fenced", (results) => overlaps(results, "fenced")],
  ["fence errors", (results) => figure(sumOf(results, ({ fenceErrors }) => fenceErrors))],
  ["violations", (results) => figure(sumOf(results, ({ violations }) => violations))],
  ["server", (results) => distinct(results.map(({ versions }) => versions.server ?? "")).join("; ")],
];

/** One line for each store, and one for all. */
export function totals(results: readonly Result[]): string {
  const line = (name: string, some: readonly Result[]): string[] => [
    name,
    ...SUMS.map(([, show]) => show(some)),
  ];
  const stores = distinct(results.map(({ store }) => store));
  const lines = stores.map((name) =>
    line(
      name,
      results.filter(({ store }) => store === name),
    ),
  );
  const all = [...line("**all**", results).slice(0, -1), ""];
  const table = markdownTable(["store", ...SUMS.map(([title]) => title)], [...lines, all]);
  return ["", "## Totals", "", sources(results), "", table, ""].join("\n");
}

/** Faults that more stores know come first, and none before all others. */
export function matrix(results: readonly Result[]): string {
  const stores = distinct(results.map(({ store }) => store));
  const known = (fault: string): number => results.filter((one) => one.fault === fault).length;
  const faults = distinct(results.map(({ fault }) => fault)).sort(
    (a, b) => Number(b === NONE) - Number(a === NONE) || known(b) - known(a),
  );
  const rows = faults.map((fault) => [
    fault,
    ...stores.map((store) => shown(results.filter((one) => one.fault === fault && one.store === store))),
  ]);
  return ["", "## At a glance", "", markdownTable(["fault", ...stores], rows), LEGEND].join("\n");
}

function shown(results: readonly Result[]): string {
  if (results.length === 0) return EMPTY;
  const grants = figure(sumOf(results, (one) => one.grants));
  const violations = sumOf(results, (one) => one.violations);
  if (violations > 0) return `**${violations} of ${grants}**`;
  return results.some(({ expected }) => expected === "fenced")
    ? `${grants} (${overlaps(results, "fenced")})`
    : grants;
}

function overlaps(results: readonly Result[], when: Result["expected"]): string {
  return figure(
    sumOf(
      results.filter(({ expected }) => expected === when),
      (one) => one.overlaps,
    ),
  );
}

/** Which sources were run, and how often. */
function sources(results: readonly Result[]): string {
  const kinds = results.map(
    ({ measured, versions: { holdfast, node, source } }) =>
      `holdfast ${holdfast} with \`src\` at ${source}, Node.js ${node}, ${measured}`,
  );
  const lines = distinct(kinds).map(
    (kind) => `- ${kind}: ${figure(kinds.filter((one) => one === kind).length)} runs`,
  );
  return ["What was run. The hash is that of `git rev-parse COMMIT:src`.", "", ...lines].join("\n");
}

// All runs at a glance: a line for each fault, a column for each store. What a cell claims is in the long table below it.

import { figure, markdownTable } from "../scripts/generated.ts";
import type { Result } from "./results.ts";

const NONE = "none";
const EMPTY = "·";

const LEGEND = `
A cell is the number of grants in that run. A number alone: no two holders believed at once. With a second one in brackets: the store
leaves that fault to the fence, and so often two believed at once; the guarded register stayed right. **In bold**: so many promises
were broken. *In italics*: the run is of an older version of holdfast, whose store may have worked in another way. \`${EMPTY}\`: this cannot happen to that store, happens to it under another name, or could not be tried (the notes below
say where). The network faults go through a proxy of each client's own in front of each server; where servers tell clients where to
go, as Sentinel and Cluster do, the proxies tell of themselves instead. \`redlock-aof\`, \`redlock-rdb\` and \`mysql-pair\` are setups of
their store and run what comes out otherwise on them.
`;

/** Faults that more stores know come first, and none before all others. */
export function matrix(results: readonly Result[]): string {
  const stores = [...new Set(results.map(({ store }) => store))].sort();
  const known = (fault: string): number => results.filter((one) => one.fault === fault).length;
  const faults = [...new Set(results.map(({ fault }) => fault))].sort(
    (a, b) => Number(b === NONE) - Number(a === NONE) || known(b) - known(a) || (a < b ? -1 : 1),
  );
  const current = newest(results);
  const cell = (fault: string, store: string): string => {
    const result = results.find((one) => one.fault === fault && one.store === store);
    if (result === undefined) return EMPTY;
    return versionOf(result) === current ? shown(result) : `*${shown(result)}*`;
  };
  const rows = faults.map((fault) => [fault, ...stores.map((store) => cell(fault, store))]);
  const grants = results.reduce((sum, one) => sum + one.grants, 0);
  const broken = results.reduce((sum, one) => sum + one.violations, 0);
  const promises = broken === 0 ? "no promise broken" : `**${broken} broken promises**`;
  const sum = `${results.length} runs, ${figure(grants)} grants, ${promises}. ${versions(results)}`;
  return ["", "## At a glance", "", sum, "", markdownTable(["fault", ...stores], rows), LEGEND].join("\n");
}

function shown({ grants, overlaps, violations, expected }: Result): string {
  if (violations > 0) return `**${violations} of ${figure(grants)}**`;
  return expected === "fenced" ? `${figure(grants)} (${overlaps})` : figure(grants);
}

/** How many runs are of each version, the newest first. */
function versions(results: readonly Result[]): string {
  const all = [...new Set(results.map(versionOf))].sort(byVersion).reverse();
  const counted = all.map((one) => {
    const count = results.filter((result) => versionOf(result) === one).length;
    return `${count} of holdfast ${one}`;
  });
  return `Runs by version: ${counted.join(", ")}.`;
}

const versionOf = ({ versions: { holdfast } }: Result): string => holdfast;

function byVersion(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

function newest(results: readonly Result[]): string | undefined {
  return results.map(versionOf).sort(byVersion).at(-1);
}

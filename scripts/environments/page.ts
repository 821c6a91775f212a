// The results as tables for docs/reference/environments.md. A cell that failed is shown as failed.

import { markdownTable } from "../generated.ts";
import type { Result } from "./kept-results.ts";

const GROUPS = ["Runtimes", "Tools", "TypeScript"] as const;

export function environmentTables(results: readonly Result[], commit: string): string {
  const failed = results.filter(({ isGood }) => !isGood).length;
  const days = [...new Set(results.map(({ date }) => date))].toSorted().join(", ");
  const counted = `${results.length} cells, ${results.length - failed} passed, ${failed} failed. `;
  const run = `Run on ${days} with the package of commit \`${commit}\`.`;
  const tables = GROUPS.map((group) => {
    const table = tableOf(results.filter(({ cell }) => cell.group === group));
    return `### ${group}\n\n${table}`;
  });
  return [counted + run, ...tables].join("\n\n");
}

function tableOf(results: readonly Result[]): string {
  const rows = [...new Set(results.map(({ cell }) => cell.row))];
  const columns = [...new Set(results.map(({ cell }) => cell.column))];
  return markdownTable(
    ["", "version", ...columns],
    rows.map((row) => {
      const inRow = results.filter(({ cell }) => cell.row === row);
      const version = inRow.find((result) => result.version !== "")?.version ?? "";
      return [
        row,
        version,
        ...columns.map((column) => shown(inRow.find(({ cell }) => cell.column === column))),
      ];
    }),
  );
}

function shown(result: Result | undefined): string {
  if (result === undefined) return "not offered";
  return result.isGood ? "ok" : "**failed**";
}

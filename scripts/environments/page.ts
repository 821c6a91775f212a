// The outcomes as tables for docs/environments.md. A cell that failed is shown as failed.

import { markdownTable } from "../generated.ts";
import type { Cell } from "./cells.ts";

export interface Outcome {
  readonly cell: Cell;
  /** What it was run with. */
  readonly version: string;
  readonly isGood: boolean;
}

const GROUPS = ["Runtimes", "Tools", "TypeScript"] as const;

export function environmentTables(outcomes: readonly Outcome[], date: Date): string {
  const failed = outcomes.filter(({ isGood }) => !isGood).length;
  const day = date.toISOString().slice(0, 10);
  const counted = `${day}: ${outcomes.length} cells, ${outcomes.length - failed} passed, ${failed} failed.`;
  const tables = GROUPS.map((group) => {
    const table = tableOf(outcomes.filter(({ cell }) => cell.group === group));
    return `### ${group}\n\n${table}`;
  });
  return [counted, ...tables].join("\n\n");
}

function tableOf(outcomes: readonly Outcome[]): string {
  const rows = [...new Set(outcomes.map(({ cell }) => cell.row))];
  const columns = [...new Set(outcomes.map(({ cell }) => cell.column))];
  return markdownTable(
    ["", "version", ...columns],
    rows.map((row) => {
      const inRow = outcomes.filter(({ cell }) => cell.row === row);
      const results = columns.map((column) => shown(inRow.find(({ cell }) => cell.column === column)));
      return [row, (inRow[0] as Outcome).version, ...results];
    }),
  );
}

function shown(outcome: Outcome | undefined): string {
  if (outcome === undefined) return "not offered";
  return outcome.isGood ? "ok" : "**failed**";
}

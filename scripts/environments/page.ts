// The outcomes as tables for docs/environments.md. A cell that failed is shown as failed.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { markdownTable } from "../generated.ts";
import type { Cell } from "./cells.ts";
import { runtimeVersion } from "./runtimes.ts";

export interface Outcome {
  readonly cell: Cell;
  readonly isGood: boolean;
}

const EXAMPLES = join(import.meta.dirname, "..", "..", "examples", "environments");
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
      return [row, versionOf((inRow[0] as Outcome).cell), ...results];
    }),
  );
}

function shown(outcome: Outcome | undefined): string {
  if (outcome === undefined) return "not offered";
  return outcome.isGood ? "ok" : "**failed**";
}

function versionOf({ group, row, example, runtimes }: Cell): string {
  if (group === "Runtimes") return runtimeVersion(runtimes[0] as string);
  if (group === "TypeScript") return `${row}.x`;
  const { dependencies = {}, devDependencies = {} } = JSON.parse(
    readFileSync(join(EXAMPLES, example, "package.json"), "utf8"),
  ) as Record<string, Record<string, string>>;
  const all = { ...dependencies, ...devDependencies };
  return Object.entries(all)
    .filter(([name]) => SHOWN.has(name))
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
}

/** Packages that name the environment; the others only help it. */
const SHOWN: ReadonlySet<string> = new Set(
  "jest ts-jest vitest tsx @swc/core esbuild webpack vite next".split(" "),
);

// No line is wider than 110 characters. Older files have wider lines: wide-lines.json records how many per
// file. The recorded numbers only go down. `npm run tidy:lower` writes lower numbers and rejects higher
// ones.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Complaint, SourceFile } from "./tree.ts";

const MAX_WIDTH = 110;
const LOWER = "npm run tidy:lower";
export const RECORD: string = join(import.meta.dirname, "wide-lines.json");

/** Wide lines per path. A path that is missing has none. */
export type WideLines = Readonly<{ [path: string]: number }>;

const CHECKED = /\.(?:[cm]?[jt]s|d\.mts|c|lua|md|proto|py|sh|sql|ya?ml)$|^\.ci\/run$/;
const GENERATED = /\.generated\.ts$/;
const FENCE = /^\s*(`{3,}|~{3,})/;

export function readRecord(): WideLines {
  return JSON.parse(readFileSync(RECORD, "utf8")) as WideLines;
}

/** Line numbers, from 1. URLs do not count: they cannot be wrapped. Nor do tables and code in Markdown. */
export function wideLines(file: SourceFile): number[] {
  if (!CHECKED.test(file.path) || GENERATED.test(file.path)) return [];
  const lines = file.text.split("\n");
  const isProse = file.path.endsWith(".md") ? proseLines(lines) : lines.map(() => true);
  return lines.flatMap((line, at) => (isProse[at] === true && isWide(line) ? [at + 1] : []));
}

function isWide(line: string): boolean {
  if (line.length <= MAX_WIDTH) return false;
  return Array.from(line.replace(/https?:\/\/[^\s)>"'`]+/g, "")).length > MAX_WIDTH;
}

function proseLines(lines: readonly string[]): boolean[] {
  let fence: string | null = null;
  return lines.map((line) => {
    const mark = FENCE.exec(line)?.[1];
    if (fence === null && mark === undefined) return !/^\s*\|/.test(line);
    if (fence === null) fence = mark as string;
    else if (mark?.startsWith(fence) === true) fence = null;
    return false;
  });
}

export function countWideLines(files: readonly SourceFile[]): WideLines {
  const counts = files.map((file) => [file.path, wideLines(file).length] as const);
  return Object.fromEntries(counts.filter(([, count]) => count > 0).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Files with more wide lines than recorded, with each place, and records that are too high. */
export function checkWidth(files: readonly SourceFile[], record: WideLines): Complaint[] {
  const counts = countWideLines(files);
  const higher = files.flatMap((file) => {
    const recorded = record[file.path] ?? 0;
    if ((counts[file.path] ?? 0) <= recorded) return [];
    const places = wideLines(file);
    const message =
      recorded === 0
        ? `wider than ${MAX_WIDTH} characters: wrap lines ${places.join(", ")}`
        : `${places.length} wide lines, ${recorded} recorded: wrap yours of ${places.join(", ")}`;
    return [{ path: file.path, line: places[0] ?? 1, message }];
  });
  const lower = Object.entries(record).flatMap(([path, recorded]) => {
    const count = counts[path] ?? 0;
    const message = `${count} wide lines, ${recorded} recorded: lower the number: run ${LOWER}`;
    return count < recorded ? [{ path, line: 1, message }] : [];
  });
  return [...higher, ...lower];
}

/**
 * The next record, or the paths whose numbers would rise. Code that moves keeps its wide lines: new files may
 * have some as long as the total does not rise.
 */
export function lowerRecord(
  record: WideLines,
  files: readonly SourceFile[],
): { readonly record: WideLines; readonly rejected: readonly string[] } {
  const counts = countWideLines(files);
  const total = (numbers: WideLines): number => Object.values(numbers).reduce((sum, one) => sum + one, 0);
  const risen = Object.entries(counts).filter(([path, count]) => count > (record[path] ?? count));
  const added = Object.entries(counts).filter(([path]) => record[path] === undefined);
  const hasMoved = total(counts) <= total(record);
  return { record: counts, rejected: [...(hasMoved ? [] : added), ...risen].map(([path]) => path) };
}

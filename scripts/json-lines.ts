// Results in one file: one JSON object per line, sorted, and one line per identity. Readers see the old
// file or the new one, never a part of it. Two writers at the same moment can lose a line: run one at a
// time.

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

/** A missing file has no lines. */
export function readJsonLines<T extends object>(file: string): T[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line, at) => (line === "" ? [] : [parse<T>(line, `${file}:${at + 1}`)]));
}

function parse<T>(line: string, place: string): T {
  try {
    return JSON.parse(line) as T;
  } catch (error) {
    throw new Error(`${place}: not a line of JSON`, { cause: error });
  }
}

/** Replaces the line that has the identity of `added`, or inserts `added` at its position. */
export function putJsonLine<T extends object>(file: string, added: T, identityOf: (line: T) => string): void {
  const identity = identityOf(added);
  const others = readJsonLines<T>(file).filter((line) => identityOf(line) !== identity);
  const sorted = [...others, added].sort((a, b) => compare(identityOf(a), identityOf(b)));
  const written = `${file}.${process.pid}.tmp`;
  writeFileSync(written, sorted.map((line) => `${JSON.stringify(line)}\n`).join(""));
  renameSync(written, file);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

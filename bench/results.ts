// The results of the benchmark suites: bench/results.jsonl, one line per suite.

import { join } from "node:path";
import { putJsonLine, readJsonLines } from "../scripts/json-lines.ts";

const FILE: string = join(import.meta.dirname, "results.jsonl");

export interface SuiteResult {
  readonly suite: string;
  /** Day of the measurement, and what the suite measured. */
  readonly [name: string]: unknown;
}

export const suiteOf = ({ suite }: SuiteResult): string => suite;

export function readSuiteResults(): SuiteResult[] {
  return readJsonLines<SuiteResult>(FILE);
}

export function writeSuiteResult(result: SuiteResult): void {
  putJsonLine(FILE, result, suiteOf);
}

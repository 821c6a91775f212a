// The recorded series of the simulator, sim/results.jsonl with one line per store and seed.

import { join } from "node:path";
import { putJsonLine, readJsonLines } from "../scripts/json-lines.ts";
import { ranNow, type RanNow } from "../scripts/ran-now.ts";

const FILE: string = join(import.meta.dirname, "results.jsonl");

export interface SimFigures {
  readonly store: string;
  readonly seed: number;
  readonly runs: number;
  readonly events: number;
  readonly grants: number;
  readonly losses: number;
  readonly failed: boolean;
  readonly seconds: number;
}

export type SimResult = SimFigures & RanNow;

export function writeSimResult(figures: SimFigures): void {
  const seconds = Math.round(figures.seconds);
  putJsonLine<SimResult>(FILE, { ...figures, seconds, ...ranNow() }, ({ store, seed }) => `${store} ${seed}`);
}

export function readSimResults(): SimResult[] {
  return readJsonLines<SimResult>(FILE);
}

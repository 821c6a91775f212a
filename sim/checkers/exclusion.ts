// P1: at no moment do incompatible holders believe at once; permits never add up to more than the largest
// limit of those who hold.

import { type Belief, beliefs } from "../beliefs.ts";
import type { Checker, Violation } from "../history.ts";

export const exclusion: Checker = (history) => {
  if (history.context.forgetful) return [];
  const byKey = new Map<string, Belief[]>();
  for (const belief of beliefs(history)) {
    for (const key of belief.ask.keys) byKey.set(key, [...(byKey.get(key) ?? []), belief]);
  }
  return [...byKey].flatMap(([key, all]) => sweep(key, all));
};

/** Walks along the ends and beginnings in order; at equal times ends come first, because a window excludes its end. */
function sweep(key: string, all: readonly Belief[]): Violation[] {
  const marks = all
    .filter((belief) => belief.to > belief.from)
    .flatMap((belief) => [
      { at: belief.from, begins: true, belief },
      { at: belief.to, begins: false, belief },
    ])
    .sort((a, b) => a.at - b.at || Number(a.begins) - Number(b.begins));
  const now = new Set<Belief>();
  const violations: Violation[] = [];
  for (const { at, begins, belief } of marks) {
    if (!begins) {
      now.delete(belief);
      continue;
    }
    for (const other of now) {
      if (!compatible(belief, other)) violations.push(overlap(key, at, belief, other));
    }
    now.add(belief);
    const permits = [...now].reduce((sum, one) => sum + one.ask.permits, 0);
    // Who was granted first may come to believe last, so the limit of the last one says nothing by itself.
    const limit = Math.max(...[...now].map((one) => one.ask.limit));
    if (limit > 1 && permits > limit) {
      violations.push({
        promise: "P1",
        at,
        what: `${key}: ${permits} permits of ${limit} are held at once`,
      });
    }
  }
  return violations;
}

function compatible(a: Belief, b: Belief): boolean {
  if (a.ask.limit > 1 && b.ask.limit > 1) return true;
  return a.ask.mode === "shared" && b.ask.mode === "shared";
}

function overlap(key: string, at: number, a: Belief, b: Belief): Violation {
  const ms = Math.min(a.to, b.to) - at;
  return {
    promise: "P1",
    at,
    what: `${key}: ${a.client} (${a.lease}) and ${b.client} (${b.lease}) both believe for ${ms.toFixed(1)} ms`,
  };
}

// The rules of the line, from names alone. Whoever came before decides, nothing else: what stands behind a place is never looked
// at, so two processes that see different ends of one line still agree.
//
// 1. What is kept for somebody who is gone stands before everybody.
// 2. A place is granted when it fits beside *all* that stand before it, whether they hold already or not: no reader
//    overtakes a writer that waits, no small request a large one.
// 3. The first in line decides on the limit. A place with another limit further on is about to leave: it is waited for.
// 4. A place that is not granted watches the nearest places before it that are enough: as long as they stand it cannot be
//    its turn, whatever happens to the others.

import { type Entry, readName } from "./names.ts";

export interface Line {
  /** What is kept for somebody without a place; else the order of arrival. */
  readonly entries: readonly Entry[];
}

export function readLine(names: readonly string[], key: string): Line {
  const all = names.map((name) => readName(name, key));
  const places = all.filter((entry) => !entry.kept).sort((a, b) => inOrder(a.seq, b.seq));
  const there = new Set(places.map((place) => place.id));
  const kept = all.filter((entry) => entry.kept && !there.has(entry.id));
  return { entries: [...kept, ...places] };
}

/** Numbers run over from 2^31 - 1 to -2^31: their distance tells the order, never their size. */
export function inOrder(a: number, b: number): number {
  return (a - b) | 0;
}

/** Those that stand before it; null when it does not stand there itself. */
export function before(line: Line, name: string): readonly Entry[] | null {
  const at = line.entries.findIndex((entry) => entry.name === name);
  return at === -1 ? null : line.entries.slice(0, at);
}

export function fits(ahead: readonly Entry[], own: Entry): boolean {
  if (ahead.some((entry) => entry.limit !== own.limit)) return false;
  if (own.limit > 1) return permitsOf(ahead) + own.permits <= own.limit;
  return ahead.length === 0 || (own.mode === "shared" && ahead.every((entry) => entry.mode === "shared"));
}

/** The limit of the first, where it is another than ours. */
export function otherLimit(ahead: readonly Entry[], own: Pick<Entry, "limit">): number | null {
  const limit = ahead[0]?.limit ?? own.limit;
  return limit === own.limit ? null : limit;
}

/** Which of those before it have to be watched. */
export function toWatch(ahead: readonly Entry[], own: Entry): Entry[] {
  const odd = ahead.findLast((entry) => entry.limit !== own.limit);
  if (odd !== undefined) return [odd];
  if (own.limit === 1) {
    const last = ahead.findLast((entry) => own.mode === "exclusive" || entry.mode === "exclusive");
    return last === undefined ? [] : [last];
  }
  const watched: Entry[] = [];
  for (const entry of ahead.toReversed()) {
    if (permitsOf(watched) > own.limit - own.permits) break;
    watched.push(entry);
  }
  return watched;
}

/** Those who hold as far as this line goes: one that wants several keys may still wait for another of them. */
export function fitting(line: Line): Entry[] {
  return line.entries.filter((entry, at) => entry.kept || fits(line.entries.slice(0, at), entry));
}

function permitsOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, entry) => sum + entry.permits, 0);
}

// The rules of the line, from names alone. Whoever came before decides, nothing else: what stands behind a place is never looked
// at, so two processes that see different ends of one line still agree.
//
// 1. What is kept for somebody who is gone stands before everybody.
// 2. A place is granted when it fits beside *all* that stand before it, whether they hold already or not: no reader
//    overtakes a writer that waits, no small request a large one.
// 3. A lock (limit 1) and a semaphore exclude each other. Of a semaphore the limit that a place itself
//    names counts. Where limits differ, a place also waits until all before it fit: nobody gets permits
//    that one before it waits for.
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
  if (ahead.some((entry) => isSemaphore(entry) !== isSemaphore(own))) return false;
  if (isSemaphore(own)) return haveRoom([...ahead, own]);
  return ahead.length === 0 || (own.mode === "shared" && ahead.every((entry) => entry.mode === "shared"));
}

/** Which of those before it have to be watched. */
export function toWatch(ahead: readonly Entry[], own: Entry): Entry[] {
  const odd = ahead.findLast((entry) => isSemaphore(entry) !== isSemaphore(own));
  if (odd !== undefined) return [odd];
  const unfit = ahead.findIndex((entry, at) => entry.limit !== own.limit && !fits(ahead.slice(0, at), entry));
  if (unfit !== -1) {
    const waiter = ahead[unfit] as Entry;
    return [waiter, ...toWatch(ahead.slice(0, unfit), waiter)];
  }
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

function isSemaphore({ limit }: Pick<Entry, "limit">): boolean {
  return limit > 1;
}

/** Whether each of them, in this order, stays within the limit that it names. */
function haveRoom(entries: readonly Entry[]): boolean {
  let permits = 0;
  return entries.every((entry) => {
    permits += entry.permits;
    return permits <= entry.limit;
  });
}

function permitsOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, entry) => sum + entry.permits, 0);
}

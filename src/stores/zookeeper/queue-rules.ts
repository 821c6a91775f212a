// The rules of the queue, from node names alone. Only what is ahead of a node decides. Two processes that see
// different ends of one queue therefore agree.
//
// 1. A kept node whose holder is gone is ahead of everything.
// 2. A node holds if it fits beside *all* that are ahead, whether those hold or wait: no reader overtakes a
//    waiting writer, no small request a large one.
// 3. A lock (limit 1) and a semaphore exclude each other. For a semaphore the limit that the node itself
//    names counts. Where limits differ, a node also waits until all ahead of it fit: nobody gets permits that
//    a request ahead waits for.
// 4. A node that does not hold watches the nearest nodes ahead that are enough: while they exist it cannot
//    hold, whatever happens to the others.

import { type Entry, readName } from "./paths.ts";

/** Kept entries without a queue node, then queue nodes in their order. */
export type Queue = readonly Entry[];

export function readQueue(names: readonly string[], key: string): Queue {
  const all = names.map((name) => readName(name, key));
  if (all.length < 2) return all;
  const queued = all.filter((entry) => !entry.isKept).sort((a, b) => inOrder(a.seq, b.seq));
  const ids = new Set(queued.map(({ id }) => id));
  return [...all.filter((entry) => entry.isKept && !ids.has(entry.id)), ...queued];
}

/** Numbers wrap around from 2^31 - 1 to -2^31: their distance gives the order, not their size. */
export function inOrder(a: number, b: number): number {
  return (a - b) | 0;
}

/** The entries ahead of this name; null if the name is not in the queue. */
export function aheadOf(queue: Queue, name: string): Queue | null {
  const at = queue.findIndex((entry) => entry.name === name);
  return at === -1 ? null : queue.slice(0, at);
}

export function fits(ahead: Queue, own: Entry): boolean {
  if (ahead.length === 0) return !isSemaphore(own) || own.permits <= own.limit;
  if (ahead.some((entry) => isSemaphore(entry) !== isSemaphore(own))) return false;
  if (isSemaphore(own)) return haveRoom([...ahead, own]);
  return own.mode === "shared" && ahead.every((entry) => entry.mode === "shared");
}

/** The entries ahead that have to be watched. */
export function entriesToWatch(ahead: Queue, own: Entry): Entry[] {
  const otherKind = ahead.findLast((entry) => isSemaphore(entry) !== isSemaphore(own));
  if (otherKind !== undefined) return [otherKind];
  const waiting = ahead.findIndex(
    (entry, at) => entry.limit !== own.limit && !fits(ahead.slice(0, at), entry),
  );
  if (waiting !== -1) {
    const waiter = ahead[waiting] as Entry;
    return [waiter, ...entriesToWatch(ahead.slice(0, waiting), waiter)];
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

/**
 * Entries that hold as far as this queue shows, at most so many. A request for several keys may still wait
 * for another key. Holders are a prefix of the queue: what does not fit blocks everything behind it.
 */
export function holdersOf(queue: Queue, most: number = queue.length): Entry[] {
  const holders: Entry[] = [];
  for (const entry of queue) {
    if (holders.length === most || !(entry.isKept || fits(holders, entry))) break;
    holders.push(entry);
  }
  return holders;
}

function isSemaphore({ limit }: Pick<Entry, "limit">): boolean {
  return limit > 1;
}

/** Whether each of them, in this order, stays within the limit that it names. */
function haveRoom(entries: Queue): boolean {
  let permits = 0;
  return entries.every((entry) => {
    permits += entry.permits;
    return permits <= entry.limit;
  });
}

function permitsOf(entries: Queue): number {
  return entries.reduce((sum, entry) => sum + entry.permits, 0);
}

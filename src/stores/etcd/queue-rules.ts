// The rules of the queue, as transactions. A request creates one queue key per key. The revision at which it
// was created is its position and, once it holds, its fence.
//
// 1. An exclusive request blocks everything behind it, a shared one blocks exclusive ones only.
// 2. A semaphore has room while the permits of all requests ahead and its own do not exceed the limit that it
//    names itself.
// 3. Locks and semaphores block each other.
// 4. Nobody overtakes.

import type { Request } from "../../core/store.ts";
import type { KeyRange, Keys } from "./keys.ts";
import {
  ASCENDING,
  BY_CREATION,
  CREATION,
  DESCENDING,
  EQUAL,
  LESS,
  type LooseCompare,
  type LooseOp,
  MODIFICATION,
  type OpAnswer,
} from "./protocol/messages.ts";
import { readRow, type Row } from "./record.ts";

export function isSemaphore({ limit }: Pick<Request, "limit">): boolean {
  return limit > 1;
}

/** The key was created at `createRevision`, or does not exist if that is 0. */
export function wasCreatedAt(key: string, createRevision: number): LooseCompare {
  return { key, target: CREATION, result: EQUAL, createRevision };
}

export function isAbsent(key: string): LooseCompare {
  return wasCreatedAt(key, 0);
}

export function wasModifiedAt(key: string, modRevision: number): LooseCompare {
  return { key, target: MODIFICATION, result: EQUAL, modRevision };
}

/** Nothing was created in this range after `revision`. */
export function hasNothingNewer({ key, end }: KeyRange, revision: number): LooseCompare {
  return { key, end, target: CREATION, result: LESS, createRevision: revision + 1 };
}

function isEmpty({ key, end }: KeyRange): LooseCompare {
  return { key, end, target: CREATION, result: EQUAL, createRevision: 0 };
}

/** Nothing blocks a new request. Not for semaphores: no comparison can add up permits. */
export function isFree(keys: Keys, { keys: wanted, mode }: Request): LooseCompare[] {
  return wanted.flatMap((key) => {
    const lock = keys.lock(key);
    if (mode === "exclusive") return [isEmpty(lock)];
    const [kept, readers] = [keys.kept(key, 1, "shared"), keys.queue(key, 1, "shared")];
    return [
      isEmpty({ key: lock.key, end: kept.key }),
      isEmpty({ key: kept.end, end: readers.key }),
      isEmpty({ key: readers.end, end: lock.end }),
    ];
  });
}

/**
 * Reads why a queue key was not created: whether it exists already, and the head of the queue. Two per key.
 */
export function readBlockers(keys: Keys, request: Request): LooseOp[] {
  const own = keys.ofRequest(request);
  return request.keys.flatMap((key, at) => [{ range: { key: own[at] } }, readHead(keys, key)]);
}

function readHead(keys: Keys, key: string): LooseOp {
  return { range: { ...keys.lock(key), limit: 1, order: ASCENDING, by: BY_CREATION } };
}

/** Reads where a request is in each of its queues. Five per key. */
export function readPositions(keys: Keys, request: Request, revision: number): LooseOp[] {
  const own = keys.ofRequest(request);
  const older = { maxCreateRevision: revision - 1, order: DESCENDING, by: BY_CREATION, limit: 1 };
  const isShared = request.mode === "shared";
  return request.keys.flatMap((key, at) => {
    // A semaphore waits for every lock ahead, a shared lock for exclusive ones.
    const locks = isSemaphore(request)
      ? keys.ofLimit(key, 1)
      : isShared
        ? keys.queue(key, 1, "exclusive")
        : keys.lock(key);
    const kept = isShared && !isSemaphore(request) ? keys.kept(key, 1, "exclusive") : keys.allKept(key, 1);
    return [
      { range: { key: own[at] } },
      { range: { ...locks, ...older } },
      // One of them may be its own.
      { range: { ...kept, limit: 2 } },
      // All of them: permits are added up here.
      { range: keys.semaphores(key) },
      readHead(keys, key),
    ];
  });
}

/** Where a request is in the queue of one key. */
export interface Position {
  readonly key: string;
  readonly own: Row | null;
  /** What blocks it; none if it holds. */
  readonly ahead: readonly Row[];
  readonly head: Row | null;
}

/** Parses the answers to `readPositions`. */
export function toPositions(
  keys: Keys,
  request: Request,
  revision: number,
  answers: readonly OpAnswer[],
): Position[] {
  return request.keys.map((key, at) => {
    const [own = [], locks = [], kept = [], permits = [], head = []] = [0, 1, 2, 3, 4].map((i) =>
      rowsOf(answers[5 * at + i], keys),
    );
    const known = new Set([request.id, ...locks.map((row) => row.id)]);
    const blocking = [...locks, ...kept.filter((row) => !known.has(row.id))];
    const semaphores = permits
      .filter((row) => row.id !== request.id && (row.isKept || row.revision < revision))
      .sort((a, b) => b.revision - a.revision);
    const fits = isSemaphore(request) && blocking.length === 0 && hasRoom(semaphores, request);
    return {
      key,
      own: own[0] ?? null,
      ahead: fits ? [] : [...blocking, ...semaphores],
      head: head[0] ?? null,
    };
  });
}

/**
 * Whether there are permits for a request behind these rows. Where limits differ, all of the rows have to
 * be within their own limits too: nobody gets permits that a request ahead waits for.
 */
export function hasRoom(
  rows: readonly Row[],
  { permits, limit }: Pick<Request, "permits" | "limit">,
): boolean {
  const byId = new Map(rows.toSorted(inOrder).map((row) => [row.id, row]));
  let taken = 0;
  for (const row of byId.values()) {
    taken += row.details.permits;
    if (taken > row.limit && !row.isKept) return false;
  }
  return taken + permits <= limit;
}

/** Kept rows come first: their holders were ahead of all that wait. */
function inOrder(a: Row, b: Row): number {
  return Number(b.isKept) - Number(a.isKept) || a.revision - b.revision;
}

export function rowsOf(answer: OpAnswer | undefined, keys: Keys): Row[] {
  return (answer?.range?.kvs ?? []).map((kv) => readRow(kv, keys));
}

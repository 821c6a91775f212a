// The rules, as transactions. Whoever wants a lock creates a name under it; the revision at which it was created is its place in
// line and, once it is its turn, its fence. A name blocks those behind it: a writer everybody, a reader writers only; of a
// semaphore, one fits while the permits of all before it and its own do not exceed the limit. Nobody overtakes.

import type { Request } from "../../core/store.ts";
import {
  ASCENDING,
  BY_CREATION,
  CREATION,
  DESCENDING,
  EQUAL,
  LESS,
  type LooseCompare,
  type LooseOp,
  type OpAnswer,
} from "./messages.ts";
import type { Names, Span } from "./names.ts";
import { readRow, type Row } from "./record.ts";

export function isSemaphore(request: Pick<Request, "limit">): boolean {
  return request.limit > 1;
}

export function ownNames(names: Names, { keys, limit, mode, id }: Request): string[] {
  return keys.map((key) => names.own(key, limit, mode, id));
}

export function keptNames(names: Names, { keys, limit, mode, id }: Request): string[] {
  return keys.map((key) => names.kept(key, limit, mode, id));
}

export function absent(key: string): LooseCompare {
  return { key, target: CREATION, result: EQUAL, createRevision: 0 };
}

/** Nothing lies in this span. */
function empty({ key, end }: Span): LooseCompare {
  return { key, end, target: CREATION, result: EQUAL, createRevision: 0 };
}

export function createdAt(key: string, createRevision: number): LooseCompare {
  return { key, target: CREATION, result: EQUAL, createRevision };
}

/** Nothing was created in this span after `revision`. */
export function nothingNewer({ key, end }: Span, revision: number): LooseCompare {
  return { key, end, target: CREATION, result: LESS, createRevision: revision + 1 };
}

/** Nobody uses these locks with another limit. */
export function sameLimit(names: Names, { keys, limit }: Request): LooseCompare[] {
  return keys.flatMap((key) => {
    const [lock, own] = [names.lock(key), names.size(key, limit)];
    return [empty({ key: lock.key, end: own.key }), empty({ key: own.end, end: lock.end })];
  });
}

/** Nobody is in the way of one who comes now: not for semaphores, whose permits no comparison can add up. */
export function free(names: Names, { keys, mode }: Request): LooseCompare[] {
  return keys.flatMap((key) => {
    const lock = names.lock(key);
    if (mode === "exclusive") return [empty(lock)];
    const [kept, readers] = [names.keptLine(key, 1, "shared"), names.line(key, 1, "shared")];
    return [
      empty({ key: lock.key, end: kept.key }),
      empty({ key: kept.end, end: readers.key }),
      empty({ key: readers.end, end: lock.end }),
    ];
  });
}

/** Why a name was not created: whether it is there already, and who is first. Two answers per key. */
export function reasons(names: Names, request: Request): LooseOp[] {
  const own = ownNames(names, request);
  return request.keys.flatMap((key, at) => [{ range: { key: own[at] } }, { range: first(names.lock(key)) }]);
}

function first({ key, end }: Span): NonNullable<LooseOp["range"]> {
  return { key, end, limit: 1, order: ASCENDING, by: BY_CREATION };
}

/** Where one stands in each of its lines. Four answers per key. */
export function standing(names: Names, request: Request, revision: number): LooseOp[] {
  const own = ownNames(names, request);
  const all = isSemaphore(request);
  return request.keys.flatMap((key, at) => {
    const before = blockers(names, request, key);
    const kept =
      request.mode === "shared" && !all
        ? names.keptLine(key, 1, "exclusive")
        : names.allKept(key, request.limit);
    const limit = all ? 0 : 1;
    const older = { maxCreateRevision: revision - 1, order: DESCENDING, by: BY_CREATION, limit };
    return [
      { range: { key: own[at] } },
      { range: { key: before.key, end: before.end, ...older } },
      // One of them may be one's own.
      { range: { key: kept.key, end: kept.end, limit: all ? 0 : 2 } },
      { range: first(names.lock(key)) },
    ];
  });
}

/** Those who would block a name that is younger than theirs. */
function blockers(names: Names, request: Request, key: string): Span {
  if (isSemaphore(request) || request.mode === "shared") return names.line(key, request.limit, "exclusive");
  return names.lock(key);
}

export interface Standing {
  readonly key: string;
  readonly own: Row | null;
  /** Who is in the way: none when it is one's turn. */
  readonly before: readonly Row[];
  /** The first in line. */
  readonly head: Row | null;
}

export function readStanding(names: Names, request: Request, answers: readonly OpAnswer[]): Standing[] {
  return request.keys.map((key, at) => {
    const [own, before, kept, head] = [0, 1, 2, 3].map((i) => rowsOf(answers[4 * at + i], names));
    const ahead = before ?? [];
    const known = new Set([request.id, ...ahead.map((row) => row.id)]);
    const late = (kept ?? []).filter((row) => !known.has(row.id));
    return {
      key,
      own: own?.[0] ?? null,
      before: inTheWay(request, [...ahead, ...late]),
      head: head?.[0] ?? null,
    };
  });
}

/** Of a semaphore nobody is in the way while there is room. */
function inTheWay(request: Request, rows: readonly Row[]): readonly Row[] {
  if (!isSemaphore(request)) return rows;
  return permitsOf(rows) + request.permits <= request.limit ? [] : rows;
}

export function permitsOf(rows: readonly Row[]): number {
  const byId = new Map(rows.map((row) => [row.id, row.words.permits]));
  return [...byId.values()].reduce((sum, permits) => sum + permits, 0);
}

export function rowsOf(answer: OpAnswer | undefined, names: Names): Row[] {
  return (answer?.range?.kvs ?? []).map((kv) => readRow(kv, names));
}

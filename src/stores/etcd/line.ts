// The rules, as transactions. Whoever wants a lock creates a name under it; the revision at which it was
// created is its place in line and, once it is its turn, its fence. A name blocks those behind it: a writer
// everybody, a reader writers only; of a semaphore, one fits while the permits of all before it and its own
// do not exceed the limit that it names itself. Locks and semaphores block each other. Nobody overtakes.

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

/** Where one stands in each of its lines. Five answers per key. */
export function standing(names: Names, request: Request, revision: number): LooseOp[] {
  const own = ownNames(names, request);
  return request.keys.flatMap((key, at) => [
    { range: { key: own[at] } },
    ...(isSemaphore(request)
      ? beforePermits(names, key, revision)
      : beforeLock(names, request, key, revision)),
    { range: first(names.lock(key)) },
  ]);
}

/** Who may be before a lock: in its own line, what is kept, and at a semaphore of that key. */
function beforeLock(names: Names, { mode }: Request, key: string, revision: number): LooseOp[] {
  const line = mode === "shared" ? names.line(key, 1, "exclusive") : names.lock(key);
  const kept = mode === "shared" ? names.keptLine(key, 1, "exclusive") : names.allKept(key, 1);
  return [
    { range: { ...line, ...older(revision), limit: 1 } },
    // One of them may be one's own.
    { range: { ...kept, limit: 2 } },
    { range: names.semaphores(key) },
  ];
}

/** The same of permits: all of the semaphore, as permits are added up; and the last lock before it. */
function beforePermits(names: Names, key: string, revision: number): LooseOp[] {
  return [
    { range: { ...names.size(key, 1), ...older(revision), limit: 1 } },
    { range: { ...names.allKept(key, 1), limit: 1 } },
    { range: names.semaphores(key) },
  ];
}

function older(revision: number): Pick<NonNullable<LooseOp["range"]>, "maxCreateRevision" | "order" | "by"> {
  return { maxCreateRevision: revision - 1, order: DESCENDING, by: BY_CREATION };
}

export interface Standing {
  readonly key: string;
  readonly own: Row | null;
  /** Who is in the way: none when it is one's turn. */
  readonly before: readonly Row[];
  /** The first in line. */
  readonly head: Row | null;
}

export function readStanding(
  names: Names,
  request: Request,
  revision: number,
  answers: readonly OpAnswer[],
): Standing[] {
  return request.keys.map((key, at) => {
    const [own = [], line = [], kept = [], permits = [], head = []] = [0, 1, 2, 3, 4].map((i) =>
      rowsOf(answers[5 * at + i], names),
    );
    const known = new Set([request.id, ...line.map((row) => row.id)]);
    const late = kept.filter((row) => !known.has(row.id));
    const semaphore = permits
      .filter((row) => row.id !== request.id && (row.kept || row.revision < revision))
      .sort((a, b) => b.revision - a.revision);
    const locks = [...line, ...late];
    const isFree = isSemaphore(request) ? locks.length === 0 && hasRoom(semaphore, request) : undefined;
    return {
      key,
      own: own[0] ?? null,
      before: isFree === true ? [] : [...locks, ...semaphore],
      head: head[0] ?? null,
    };
  });
}

/**
 * Whether there are permits for a request behind these rows. Where limits differ, all of the rows have to
 * be within their own limits too: nobody gets permits that one before it waits for.
 */
export function hasRoom(
  rows: readonly Row[],
  { permits, limit }: Pick<Request, "permits" | "limit">,
): boolean {
  const byId = new Map(rows.toSorted(inOrder).map((row) => [row.id, row]));
  let taken = 0;
  for (const row of byId.values()) {
    taken += row.words.permits;
    if (taken > row.limit && !row.kept) return false;
  }
  return taken + permits <= limit;
}

/** What is kept comes first: its holder was before all who wait. */
function inOrder(a: Row, b: Row): number {
  return Number(b.kept) - Number(a.kept) || a.revision - b.revision;
}

export function rowsOf(answer: OpAnswer | undefined, names: Names): Row[] {
  return (answer?.range?.kvs ?? []).map((kv) => readRow(kv, names));
}

// A row of the lease table as the rules see it, and back: short form and full form of one and the same record.

import { areMarks, areTimes, damagedRow, isRecord } from "./record-shape.ts";
import { emptyRecord, type HolderRow, type KeyRecord, type WaiterRow } from "./record.ts";
import type { Beat, LoneHolder, RowState, TableRow } from "./table.ts";

/** For how long it is remembered that a request has ended (P8). */
const REMEMBER_MS = 60_000;
/** A waiter is forgotten after five claim windows of a second; some more, so that no row goes under it. */
const FORGOTTEN_MS = 10_000;

export interface Kept {
  readonly record: KeyRecord;
  /** By opened store: the oldest request that is still open for this key, and when that was told. */
  marks: Record<string, readonly [turn: number, atMs: number]>;
  /** Requests that ended before an older one of their store, and when. */
  gone: Record<string, number>;
}

interface FullForm {
  readonly limit: number;
  readonly holders: HolderRow[];
  readonly line: WaiterRow[];
  readonly gone: Record<string, number>;
}

export function keptOf(key: string, row: TableRow | null, floor: number, beats: readonly Beat[]): Kept {
  const record = emptyRecord(key);
  record.last = Math.max(row?.last ?? 0, floor);
  if (row === null) return { record, marks: {}, gone: {} };
  const marks = parsed(row.marks) as Kept["marks"];
  const numbers = Number.isSafeInteger(record.last) && Number.isSafeInteger(row.version);
  if (!areMarks(marks) || !numbers) throw damagedRow(key);
  if (row.record === null) {
    if (row.holder !== null) record.holders.push(holderRow(row.holder));
    if (!isRecord(record)) throw damagedRow(key);
    return { record, marks, gone: {} };
  }
  const full = parsed(row.record) as FullForm;
  if (!isRecord(full) || !areTimes(full.gone)) throw damagedRow(key);
  record.limit = full.limit;
  record.holders = full.holders;
  record.line = full.line;
  for (const beat of beats) overlay(record.line, beat);
  return { record, marks, gone: full.gone };
}

/** undefined where it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A heartbeat is newer than what the record says of that waiter, or says nothing. */
export function overlay(line: readonly WaiterRow[], beat: Beat): void {
  const place = line.find((row) => row.id === beat.id);
  if (place === undefined || beat.seq < place.seq) return;
  place.seq = beat.seq;
  place.seen = Math.max(place.seen, beat.seenMs);
}

export function stateOf(kept: Kept, nowMs: number, plain: (text: string) => boolean): RowState {
  const { record, marks, gone } = kept;
  const [first] = record.holders;
  const short =
    record.line.length === 0 &&
    record.holders.length <= 1 &&
    Object.keys(gone).length === 0 &&
    (first === undefined || isLone(record, first, plain));
  const full: FullForm = { limit: record.limit, holders: record.holders, line: record.line, gone };
  return {
    last: record.last,
    marks: ascii(marks),
    holder: first === undefined ? null : loneHolder(first),
    record: short ? null : ascii(full),
    overMs: overMs(record, nowMs),
  };
}

/** Whether the columns alone say everything about this holder. */
function isLone({ limit }: KeyRecord, row: HolderRow, plain: (text: string) => boolean): boolean {
  const usual = limit === 1 && row.mode === "exclusive" && row.permits === 1 && row.keepUntil === 0;
  const quiet = row.waitingFor === undefined && row.revoked === undefined && row.proc !== "";
  return usual && quiet && plain(row.label) && plain(row.actor);
}

function overMs({ holders, line }: KeyRecord, nowMs: number): number {
  return Math.max(
    nowMs,
    ...holders.map((row) => Math.max(row.until, row.keepUntil)),
    ...line.map((row) => row.seen + FORGOTTEN_MS),
  );
}

function holderRow(lone: LoneHolder): HolderRow {
  const { id, proc, label, actor, fence, room, used, since, until } = lone;
  const usual = { mode: "exclusive", permits: 1, keepUntil: 0 } as const;
  return { id, proc, label, actor, fence, room, used, since, until, ...usual };
}

function loneHolder(row: HolderRow): LoneHolder {
  const { id, proc, label, actor, fence, room, used, since, until } = row;
  return { id, proc, label, actor, fence, room, used, since, until };
}

/** Whether this request has ended: its number lies below the mark of its store, or it is named itself. */
export function hasEnded(kept: Kept, proc: string, id: string, turn: number): boolean {
  const mark = kept.marks[proc];
  return (mark !== undefined && turn < mark[0]) || kept.gone[id] !== undefined;
}

/** `open`: the oldest request of that store which is still open for this key. */
export function markEnded(
  kept: Kept,
  ended: { readonly proc: string; readonly id: string; readonly turn: number; readonly open: number },
  nowMs: number,
): void {
  const { proc, id, turn, open } = ended;
  const young = (atMs: number): boolean => atMs >= nowMs - REMEMBER_MS;
  const mark = kept.marks[proc];
  kept.marks = Object.fromEntries(Object.entries(kept.marks).filter(([, [, atMs]]) => young(atMs)));
  kept.gone = Object.fromEntries(Object.entries(kept.gone).filter(([, atMs]) => young(atMs)));
  kept.marks[proc] = [Math.max(open, mark?.[0] ?? 0), nowMs];
  if (turn >= open) kept.gone[id] = nowMs;
}

/** JSON that every database keeps as it is, whatever its character set. */
function ascii(value: object): string {
  return JSON.stringify(value).replaceAll(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

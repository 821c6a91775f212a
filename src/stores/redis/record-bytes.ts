// The record of a key as the scripts keep it, read into the ledger's words and written back: so that a process which may
// run scripts and one which may not exclude each other on the same key. The forms are those of scripts/forms.lua.

import { areMarks, areTimes, isRecord } from "../shared/record-shape.ts";
import type { HolderRow, KeyRecord, WaiterRow } from "../shared/record.ts";
import { type Packed, pack, unpack } from "./msgpack.ts";

const [FREE, HELD, FULL] = ["hf2f", "hf2h", "hf2t"] as const;
const FORM_LENGTH = 4;
const MARK_LENGTH = 41;
const [ID_LENGTH, PROC_LENGTH] = [32, 16];
const MOST_MARKS = 99;
const LONGEST_LABEL = 9_999;
const KEEP_FENCE_MS = 3_600_000;
const REMEMBER_MS = 60_000;

type Table = { readonly [name: string]: Packed };
/** By store its oldest open turn, and when it said so. */
type Marks = { readonly [proc: string]: readonly [number, number] };

/** The ledger's record and what the scripts remember beside it: which requests have ended. */
export interface Kept {
  readonly record: KeyRecord;
  readonly marks: Marks;
  readonly gone: Table;
}

export function readRecord(key: string, bytes: Buffer | null): Kept {
  if (bytes === null) return free(key, 0, {});
  const kept = readForm(key, bytes);
  if (isRecord(kept.record) && areMarks(kept.marks) && areTimes(kept.gone)) return kept;
  throw new Error("HOLDFAST-FOREIGN");
}

function readForm(key: string, bytes: Buffer): Kept {
  const form = bytes.toString("latin1", 0, FORM_LENGTH);
  if (form === FULL && bytes.length > FORM_LENGTH)
    return readFull(key, unpack(bytes.subarray(FORM_LENGTH))[0] as Table);
  const columns = new Columns(bytes);
  if (form === FREE) return free(key, columns.number(16), columns.marks());
  if (form === HELD) return readHeld(key, columns);
  throw new Error("HOLDFAST-FOREIGN");
}

function free(key: string, last: number, marks: Marks): Kept {
  return {
    record: { key, limit: 1, last, holders: [], line: [] },
    marks,
    gone: {},
  };
}

function readHeld(key: string, columns: Columns): Kept {
  const [fence, room, used] = [columns.number(16), columns.number(12), columns.number(16)];
  const [since, until] = [columns.number(16) / 1_000, columns.number(16) / 1_000];
  const [id, proc] = [columns.text(ID_LENGTH), columns.text(PROC_LENGTH)];
  const kept = free(key, fence + room, columns.marks());
  const [label, actor] = [columns.text(columns.number(4)), columns.rest()];
  const row = {
    id,
    proc,
    mode: "exclusive",
    permits: 1,
    label,
    actor,
    fence,
    room,
    used,
    since,
    until,
  } as const;
  kept.record.holders.push({ ...row, keepUntil: 0 });
  return kept;
}

function readFull(key: string, it: Table): Kept {
  if (typeof it !== "object" || it === null) throw new Error("HOLDFAST-FOREIGN");
  const [rows, line] = [it["holders"] ?? [], it["line"] ?? []];
  if (
    !Array.isArray(rows) ||
    !Array.isArray(line) ||
    !rows.every((row) => typeof row === "object" && row !== null)
  )
    throw new Error("HOLDFAST-FOREIGN");
  const holders = (rows as readonly Table[]).map(({ ends, ...row }) => ({ ...row, until: ends }));
  const record = {
    key,
    limit: it["limit"] as number,
    // A number that is missing must not pass for one that is kept elsewhere.
    last: (it["last"] ?? Number.NaN) as number,
    holders: holders as unknown as HolderRow[],
    line: [...(line as readonly unknown[])] as WaiterRow[],
  };
  return {
    record,
    marks: tableOf(it["marks"]) as unknown as Marks,
    gone: tableOf(it["gone"]),
  };
}

/** Lua knows no difference between an empty list and an empty table. */
function tableOf(value: Packed | undefined): Table {
  return Array.isArray(value) || value === undefined ? {} : (value as Table);
}

export function writeRecord(kept: Kept): Buffer {
  const { last, limit, holders, line } = kept.record;
  const [row] = holders;
  if (!isSimple(kept)) {
    const rows = holders.map(({ until, ...rest }) => ({
      ...rest,
      ends: until,
    }));
    const it = {
      last,
      limit,
      holders: rows,
      line,
      marks: kept.marks,
      gone: kept.gone,
    };
    return Buffer.concat([Buffer.from(FULL), pack(it as unknown as Packed)]);
  }
  const marks = Object.entries(kept.marks).map(([proc, [open, ms]]) => proc + pad(open, 12) + pad(ms, 13));
  const told = pad(marks.length, 2) + marks.join("");
  if (row === undefined) return Buffer.from(FREE + pad(last, 16) + told);
  const numbers = pad(row.fence, 16) + pad(row.room, 12) + pad(row.used, 16) + pad(row.since * 1_000, 16);
  const until = String(Math.ceil(row.until * 1_000)).padStart(16, "0");
  const people = pad(Buffer.byteLength(row.label), 4) + row.label + row.actor;
  return Buffer.from(HELD + numbers + until + row.id + row.proc + told + people);
}

/** Nobody, or a lone holder of a plain lock. */
function isSimple({ record, marks, gone }: Kept): boolean {
  const { last, limit, holders, line } = record;
  const [row] = holders;
  const few = Object.keys(gone).length === 0 && Object.keys(marks).length <= MOST_MARKS;
  if (!few || holders.length > 1 || line.length > 0) return false;
  if (row === undefined) return true;
  const { mode, permits, keepUntil, waitingFor, revoked, id, label, fence, room } = row;
  const plain = mode === "exclusive" && limit === 1 && permits === 1 && keepUntil === 0;
  const quiet = waitingFor === undefined && revoked === undefined && last === fence + room;
  return plain && quiet && id.length === ID_LENGTH && Buffer.byteLength(label) <= LONGEST_LABEL;
}

/** Whole numbers, rounded down but for what division has done to them. */
function pad(number: number, digits: number): string {
  return String(Math.floor(number + 1e-3)).padStart(digits, "0");
}

/** Reads texts of fixed width, one behind the other. */
class Columns {
  readonly #bytes: Buffer;
  #at = FORM_LENGTH;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  text(length: number): string {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new Error("HOLDFAST-FOREIGN");
    return this.#bytes.toString("utf8", start, this.#at);
  }

  number(digits: number): number {
    const number = Number(this.text(digits));
    if (Number.isNaN(number)) throw new Error("HOLDFAST-FOREIGN");
    return number;
  }

  marks(): Marks {
    const count = this.number(2);
    const marks = Array.from({ length: count }, () => {
      const mark = this.text(MARK_LENGTH);
      return [mark.slice(0, 16), [Number(mark.slice(16, 28)), Number(mark.slice(28))]] as const;
    });
    return Object.fromEntries(marks);
  }

  rest(): string {
    return this.text(this.#bytes.length - this.#at);
  }
}

/** How long the record outlives this step: until the clock alone keeps its fences growing, and no less than its rows. */
export function lifeMs({ last, holders, line }: KeyRecord, nowMs: number): number {
  if (last === 0 && holders.length === 0 && line.length === 0) return REMEMBER_MS;
  const untilMs = Math.max(nowMs, last / 1_000, ...holders.flatMap((row) => [row.until, row.keepUntil]));
  return Math.ceil(untilMs - nowMs) + KEEP_FENCE_MS;
}

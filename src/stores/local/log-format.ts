// The lines of the lock log. Each line is framed so that a reader can tell a complete line from a cut or
// a damaged one:
//
//   LF  <bytes of meta> <bytes of records> <CRC-32 of meta> <CRC-32 of records>  SP  meta  records  LF
//
// The four numbers have eight hex digits each. Meta has fields that are separated by TAB:
//
//   head  TAB format TAB floor TAB namespace    first line; no fence up to `floor` is given again kept
// TAB key                               a record that the log before this one had step  TAB id (TAB
// version TAB key)...       new records, and the versions that they were made from seal  TAB time
// ends the log; later lines are void
//
// `kept` and `step` are followed by their records, separated by TAB. Keys and records are JSON, which
// contains no raw TAB or LF. Three kinds of lines are not complete:
// - A line that is shorter than its frame says was cut by a kill or a full disk. Every reader ignores it.
// - If only the records are damaged, the line counts as usual and its keys are rejected. Other keys still
//   work (P17).
// - If the frame or meta is damaged, the keys of the line are unknown. The whole log is rejected (P19).

import { crc32 } from "node:zlib";
import type { KeyRecord } from "../shared/record.ts";

export const LOG_FORMAT = 1;

/** The text of a damaged record. */
const DAMAGED_RECORD = "";

const LF = 10;
const SPACE = 32;
const HEX = "0123456789abcdef";
const DIGITS = 8;
const FRAME_BYTES: number = 4 * DIGITS + 1;
const FIRST_BUFFER_BYTES = 1 << 16;

/**
 * The part of a line about one key. `key` and `text` (the record) are the JSON of the log. In a new line,
 * `version` is the version that the change was made from. Once the line counts, it is the line's own version.
 */
export interface Entry {
  readonly key: string;
  version: number;
  text: string;
  /** The parsed record, or null if it is not parsed yet. */
  record: KeyRecord | null;
}

export type Line =
  | { readonly kind: "head"; readonly format: number; readonly floor: number; readonly namespace: string }
  | { readonly kind: "kept"; readonly entry: Entry }
  | { readonly kind: "step"; readonly id: string; readonly changes: readonly Entry[] }
  | { readonly kind: "seal"; readonly timeMs: number };

let buffer = Buffer.allocUnsafe(FIRST_BUFFER_BYTES);

/** Only tests pass another format. */
export function headLine(floor: number, namespace: string, format: number = LOG_FORMAT): Buffer {
  return frame(`head\t${format}\t${floor}\t${JSON.stringify(namespace)}`, "");
}

export function keptLine(key: string, text: string): Buffer {
  return frame(`kept\t${key}`, text);
}

export function stepLine(id: string, changes: readonly Entry[]): Buffer {
  let meta = `step\t${id}`;
  let records = "";
  for (const { version, key, text } of changes) {
    meta += `\t${version}\t${key}`;
    records += records === "" ? text : `\t${text}`;
  }
  return frame(meta, records);
}

export function sealLine(timeMs: number): Buffer {
  return frame(`seal\t${timeMs}`, "");
}

/** Returns a view of a shared buffer, which the next call overwrites. */
function frame(meta: string, records: string): Buffer {
  // UTF-8 needs at most three bytes per UTF-16 code unit.
  const room = FRAME_BYTES + 2 + (meta.length + records.length) * 3;
  if (room > buffer.length) buffer = Buffer.allocUnsafe(room * 2);
  const metaAt = 1 + FRAME_BYTES;
  const recordsAt = metaAt + buffer.write(meta, metaAt);
  const end = recordsAt + buffer.write(records, recordsAt);
  buffer[0] = LF;
  writeNumber(0, recordsAt - metaAt);
  writeNumber(1, end - recordsAt);
  writeNumber(2, crc32(meta));
  writeNumber(3, crc32(records));
  buffer[metaAt - 1] = SPACE;
  buffer[end] = LF;
  return buffer.subarray(0, end + 1);
}

/** Reads the line in bytes[from, to), without the LF before and after it. */
export function parseLine(bytes: Buffer, from: number, to: number): Line | "cut" | "damaged" {
  if (to - from < FRAME_BYTES) return "cut";
  const metaAt = from + FRAME_BYTES;
  const recordsAt = metaAt + readNumber(bytes, from);
  const end = recordsAt + readNumber(bytes, from + DIGITS);
  if (end > to) return "cut";
  const metaSum = readNumber(bytes, from + 2 * DIGITS);
  if (end !== to || crc32(bytes.subarray(metaAt, recordsAt)) !== metaSum) return "damaged";
  const fields = bytes.toString("utf8", metaAt, recordsAt).split("\t");
  const isIntact = crc32(bytes.subarray(recordsAt, end)) === readNumber(bytes, from + 3 * DIGITS);
  const records = isIntact ? bytes.toString("utf8", recordsAt, end).split("\t") : [];
  return toLine(fields, records) ?? "damaged";
}

function toLine(fields: readonly string[], records: readonly string[]): Line | null {
  const [kind, first = "", second = "", third = ""] = fields;
  switch (kind) {
    case "step":
      return { kind, id: first, changes: stepChanges(fields, records) };
    case "kept":
      return { kind, entry: entryOf(first, 0, records[0]) };
    case "seal":
      return { kind, timeMs: Number(first) };
    case "head":
      return { kind, format: Number(first), floor: Number(second), namespace: third };
    default:
      return null;
  }
}

function stepChanges(fields: readonly string[], records: readonly string[]): Entry[] {
  const changes: Entry[] = [];
  for (let i = 2; i + 1 < fields.length; i += 2)
    changes.push(entryOf(fields[i + 1] as string, Number(fields[i]), records[changes.length]));
  return changes;
}

function entryOf(key: string, version: number, text = DAMAGED_RECORD): Entry {
  return { key, version, text, record: null };
}

/** Writes the nth number of the frame into `buffer`. Hand-written, because it runs for every line. */
function writeNumber(index: number, value: number): void {
  let rest = value;
  for (let at = index * DIGITS + DIGITS; at > index * DIGITS; at -= 1) {
    buffer[at] = HEX.charCodeAt(rest & 15);
    rest >>>= 4;
  }
}

/** NaN if one of the bytes is not a digit. */
function readNumber(bytes: Buffer, from: number): number {
  return Number(`0x${bytes.toString("latin1", from, from + DIGITS)}`);
}

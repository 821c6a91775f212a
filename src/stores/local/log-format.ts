// The lines of the lock log. Each line is framed so that a reader can tell a complete line from a cut or a
// damaged one:
//
//   LF  <bytes of meta> <bytes of records> <CRC-32 of meta> <CRC-32 of records>  SP  meta  records  LF
//
// The four numbers have eight hex digits each. Meta has fields that are separated by TAB:
//
//   head  TAB format TAB floor TAB namespace    first line; no fence up to `floor` is given again
//   kept  TAB key                               a record that the log before this one had
//   step  TAB id (TAB version TAB key)...       new records, and the versions that they were made from
//   seal  TAB time                              ends the log; later lines are void
//
// `kept` and `step` are followed by their records, separated by TAB. Keys and records are JSON, which
// contains no raw TAB or LF. Three kinds of lines are not complete:
// - A line that is shorter than its frame says was cut by a kill or a full disk. It counts for nobody.
// - If only the records are damaged, the line counts as usual and its keys are rejected. Other keys go on
//   (P17).
// - If the frame or meta is damaged, nobody can know which keys it names. The whole log is rejected (P19).

import { crc32 } from "node:zlib";

export const LOG_FORMAT = 1;

/** In the place of a record that is damaged: no record at all. */
const DAMAGED_RECORD = "";

const LF = 10;
const DIGITS = 8;
const FRAME_BYTES: number = 4 * DIGITS + 1;
const FIRST_BUFFER_BYTES = 1 << 16;

/** One key of a line. `key` and `text`, the record, are JSON as they stand in the log. */
export interface LineChange {
  readonly version: number;
  readonly key: string;
  readonly text: string;
}

export type Line =
  | { readonly kind: "head"; readonly format: number; readonly floor: number; readonly namespace: string }
  | { readonly kind: "kept"; readonly key: string; readonly text: string }
  | { readonly kind: "step"; readonly id: string; readonly changes: readonly LineChange[] }
  | { readonly kind: "seal"; readonly timeMs: number };

let buffer = Buffer.allocUnsafe(FIRST_BUFFER_BYTES);

/** Only tests name another format. */
export function headLine(floor: number, namespace: string, format: number = LOG_FORMAT): Buffer {
  return frame(`head\t${format}\t${floor}\t${JSON.stringify(namespace)}`, "");
}

export function keptLine(key: string, text: string): Buffer {
  return frame(`kept\t${key}`, text);
}

export function stepLine(id: string, changes: readonly LineChange[]): Buffer {
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

/** The next call reuses the memory of the line that is returned. */
function frame(meta: string, records: string): Buffer {
  // UTF-8 needs at most three bytes per UTF-16 code unit.
  const room = FRAME_BYTES + 2 + (meta.length + records.length) * 3;
  if (room > buffer.length) buffer = Buffer.allocUnsafe(room * 2);
  const metaAt = 1 + FRAME_BYTES;
  const recordsAt = metaAt + buffer.write(meta, metaAt);
  const end = recordsAt + buffer.write(records, recordsAt);
  const metaSum = crc32(buffer.subarray(metaAt, recordsAt));
  const recordsSum = crc32(buffer.subarray(recordsAt, end));
  buffer[0] = LF;
  const numbers = hex(recordsAt - metaAt) + hex(end - recordsAt) + hex(metaSum) + hex(recordsSum);
  buffer.write(`${numbers} `, 1, "latin1");
  buffer[end] = LF;
  return buffer.subarray(0, end + 1);
}

/** Reads the line in bytes[from, to), without the LF before and after it. */
export function parseLine(bytes: Buffer, from: number, to: number): Line | "cut" | "damaged" {
  if (to - from < FRAME_BYTES) return "cut";
  const number = (index: number): number =>
    Number.parseInt(bytes.toString("latin1", from + index * DIGITS, from + (index + 1) * DIGITS), 16);
  const metaAt = from + FRAME_BYTES;
  const recordsAt = metaAt + number(0);
  const end = recordsAt + number(1);
  if (end > to) return "cut";
  if (end !== to || crc32(bytes.subarray(metaAt, recordsAt)) !== number(2)) return "damaged";
  const fields = bytes.toString("utf8", metaAt, recordsAt).split("\t");
  const isIntact = crc32(bytes.subarray(recordsAt, end)) === number(3);
  const records = isIntact ? bytes.toString("utf8", recordsAt, end).split("\t") : [];
  return toLine(fields, records) ?? "damaged";
}

function toLine(fields: readonly string[], records: readonly string[]): Line | null {
  const [kind, first = "", second = "", third = ""] = fields;
  switch (kind) {
    case "step":
      return { kind, id: first, changes: stepChanges(fields, records) };
    case "kept":
      return { kind, key: first, text: records[0] ?? DAMAGED_RECORD };
    case "seal":
      return { kind, timeMs: Number(first) };
    case "head":
      return { kind, format: Number(first), floor: Number(second), namespace: third };
    default:
      return null;
  }
}

function stepChanges(fields: readonly string[], records: readonly string[]): LineChange[] {
  const changes: LineChange[] = [];
  for (let i = 2; i + 1 < fields.length; i += 2) {
    const text = records[changes.length] ?? DAMAGED_RECORD;
    changes.push({ version: Number(fields[i]), key: fields[i + 1] as string, text });
  }
  return changes;
}

function hex(value: number): string {
  return value.toString(16).padStart(DIGITS, "0");
}

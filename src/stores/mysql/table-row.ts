// A row of the lease table as the statements take and give it.

import type { Beat, LoneHolder, RowState, TableRow } from "../shared/table.ts";
import { type Row, textOf, type Value } from "./port.ts";

/** The end of a row is kept to ten minutes, so that an index over it hardly ever changes. */
const OVER_STEP_US = 600_000_000;

export function rowOf(row: Row): TableRow {
  return {
    version: Number(row["version"]),
    last: Number(row["last"]),
    marks: textOf(row["marks"]),
    holder: holderOf(row),
    record: row["record"] === null ? null : textOf(row["record"]),
    overMs: 0,
  };
}

function holderOf(row: Row): LoneHolder | null {
  if (row["holder"] === null) return null;
  return {
    id: textOf(row["holder"]),
    proc: textOf(row["proc"]),
    label: textOf(row["label"]),
    actor: textOf(row["actor"]),
    fence: Number(row["fence"]),
    room: Number(row["room"]),
    used: Number(row["used"]),
    since: Number(row["since_us"]) / 1_000,
    until: Number(row["ends_us"]) / 1_000,
  };
}

export function beatsOf(row: Row | undefined): readonly Beat[] {
  const beats = row?.["beats"] ?? null;
  if (beats === null) return [];
  // MariaDB gives JSON as text; of MySQL the client has read it already.
  const list = (typeof beats === "object" && Array.isArray(beats) ? beats : JSON.parse(textOf(beats))) as [
    string,
    number,
    number,
  ][];
  return list.map(([id, seq, seenUs]) => ({ id, seq: Number(seq), seenMs: Number(seenUs) / 1_000 }));
}

/** Whether a waiter has its place in the line of this row. */
export function standsIn(row: Row, id: string): boolean {
  if (row["record"] === null) return false;
  try {
    const { line } = JSON.parse(textOf(row["record"])) as {
      readonly line: readonly { readonly id: string }[];
    };
    return line.some((waiter) => waiter.id === id);
  } catch {
    // Damaged: whoever reads the whole record says so.
    return false;
  }
}

/** The first fifteen values of `swap` and `insert`. */
export function columnsOf({ holder, last, marks, record, overMs }: RowState): Value[] {
  const over = (Math.floor(toUs(overMs) / OVER_STEP_US) + 1) * OVER_STEP_US;
  const rest = [over, last, marks, record];
  if (holder === null) return [...Array<null>(11).fill(null), ...rest];
  const { id, proc, label, actor, fence, room, used, since, until } = holder;
  const { host, process } = whoIs(proc);
  const who = [id, proc, shown(label), host, process, shown(actor)];
  return [...who, fence, room, used, toUs(since), toUs(until), ...rest];
}

/** A text that a column keeps exactly. Longer ones are in the record. */
export function isPlain(text: string): boolean {
  return text.length <= LONGEST_TEXT && text.isWellFormed();
}

const LONGEST_TEXT = 1_024;

function shown(text: string): string {
  return text.toWellFormed().slice(0, LONGEST_TEXT).toWellFormed();
}

/** An opened store is named by chance and by its process: see LeaseTable. */
export function whoIs(proc: string): { host: string; process: string } {
  const [, host = "", process = ""] = /@(.*):(\d+)$/.exec(proc) ?? [];
  return { host: host.slice(0, 255), process };
}

export function toUs(ms: number): number {
  return Math.ceil(ms * 1_000);
}

// The records of the redis store as its scripts write them, read for the observers of a simulation: who holds
// a key and who waits.

import type { KeyRecord, WaiterRow } from "../../src/stores/shared/record.ts";
import { emptyRecord } from "../../src/stores/shared/record.ts";

const US_PER_MS = 1_000;

/** `seen` of a waiter is the time until which it counts as alive. */
export function readRedisRecord(key: string, fields: ReadonlyMap<string, string>): KeyRecord {
  const record = emptyRecord(key);
  const line: (WaiterRow & { ticket: string })[] = [];
  for (const [field, text] of fields) {
    if (field === "holder" || (field.startsWith("held:") && !text.startsWith("r")))
      record.holders.push(holderOf(text));
    else if (field.startsWith("beat:")) {
      const id = field.slice("beat:".length);
      const details = fields.get(`waiter:${id}`) as string;
      // A reader or permit with a reserved place has left the queue: others of that moment may come for
      // theirs before it. One that did not come for it is passed over, and the observer would take its return
      // for a new waiter.
      const isReserved = fields.get(`held:${id}`)?.startsWith("r") === true;
      if (isReserved || (details[17] !== "x" && "ms".includes(text[28] as string))) continue;
      line.push({ ...waiterOf(id, text, details), ticket: text.slice(0, 10) });
    }
  }
  record.line = line.sort((a, b) => (a.ticket < b.ticket ? -1 : 1));
  return record;
}

function holderOf(row: string): KeyRecord["holders"][number] {
  const ms = (from: number): number => Number(row.slice(from, from + 16)) / US_PER_MS;
  const isKept = row.startsWith("k");
  return {
    id: isKept ? "" : row.slice(111, 143),
    proc: isKept ? "" : row.slice(144, 160),
    mode: row[109] === "s" ? "shared" : "exclusive",
    permits: Number(row.slice(101, 108)),
    label: row.slice(166),
    actor: "",
    fence: Number(row.slice(3, 19)),
    room: Number(row.slice(20, 32)),
    used: Number(row.slice(33, 49)),
    since: ms(50),
    until: ms(67),
    keepUntil: ms(84),
  };
}

function waiterOf(id: string, beat: string, details: string): WaiterRow {
  const promisedMs = Number(beat.slice(11, 27)) / US_PER_MS;
  return {
    id,
    proc: details.slice(0, 16),
    seq: 0,
    // When it counts as dead; observers only see that it has changed.
    seen: promisedMs,
    since: Number(beat.slice(47, 63)) / US_PER_MS,
    mode: details[17] === "s" ? "shared" : "exclusive",
    permits: Number(details.slice(21, 28)),
    limit: Number(details.slice(29, 36)),
    ttlMs: Number(details.slice(37, 53)) / US_PER_MS,
    graceMs: 0,
    keepMs: 0,
    label: details.slice(54),
    actor: "",
    ...(details[19] === "m" ? { keys: [] } : {}),
  };
}

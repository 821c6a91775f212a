// The record of one key: its holders, its waiters in order, and the largest granted fence. It is plain
// data for memory and for the files of the local store.

import type { HolderInfo, LockInfo, Mode } from "../../core/store.ts";

/** Times are ms of the store's own clock; fences fit a double until the year 2255. */
export interface HolderRow {
  id: string;
  /** The opened store of the holder. Empty if only `keepUntil` still keeps the key taken. */
  proc: string;
  mode: Mode;
  permits: number;
  label: string;
  actor: string;
  /** The first fence of the grant. The `room` fences above it are reserved for hand-offs. */
  fence: number;
  room: number;
  /** The fence in use, as of the holder's last call. */
  used: number;
  since: number;
  until: number;
  keepUntil: number;
  waitingFor?: string;
  revoked?: string;
}

export interface WaiterRow {
  id: string;
  proc: string;
  /** The sequence number and the store time of the last heartbeat. */
  seq: number;
  seen: number;
  since: number;
  mode: Mode;
  permits: number;
  limit: number;
  ttlMs: number;
  graceMs: number;
  keepMs: number;
  /** How many fences to reserve for hand-offs. Absent in records of 0.1.0: one per microsecond of the ttl. */
  room?: number;
  label: string;
  actor: string;
  /** Set if the request is for several keys. */
  keys?: readonly string[];
}

export interface KeyRecord {
  key: string;
  /** Meaningful only while the key has holders or waiters. */
  limit: number;
  /** The largest fence that a holder may have used. */
  last: number;
  holders: HolderRow[];
  line: WaiterRow[];
}

export function emptyRecord(key: string): KeyRecord {
  return { key, limit: 1, last: 0, holders: [], line: [] };
}

export function isIdle(record: KeyRecord): boolean {
  return record.holders.length === 0 && record.line.length === 0;
}

export function holderInfo(row: HolderRow, nowMs: number): HolderInfo {
  return {
    label: row.label,
    mode: row.mode,
    permits: row.permits,
    fence: BigInt(row.used),
    remainingMs: Math.max(0, row.until - nowMs),
    heldMs: Math.max(0, nowMs - row.since),
    ...(row.waitingFor === undefined ? {} : { waitingFor: row.waitingFor }),
    ...(row.revoked === undefined ? {} : { revoked: row.revoked }),
    ...(row.proc === "" ? { kept: true } : {}),
  };
}

export function lockInfo(record: KeyRecord, nowMs: number): LockInfo | null {
  if (isIdle(record)) return null;
  return {
    key: record.key,
    limit: largestLimit(record),
    holders: record.holders.map((row) => holderInfo(row, nowMs)),
    waiters: record.line.map((row) => ({
      label: row.label,
      mode: row.mode,
      permits: row.permits,
      waitedMs: Math.max(0, nowMs - row.since),
    })),
  };
}

/** The largest limit that anybody names. */
function largestLimit({ limit, holders, line }: KeyRecord): number {
  return line.reduce((most, row) => Math.max(most, row.limit), holders.length === 0 ? 1 : limit);
}

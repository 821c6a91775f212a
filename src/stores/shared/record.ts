// What a store remembers of one key: who holds it, who waits in which order, and the largest fence ever given out.
// Plain data, so that it can live in memory, in a file, or behind a simulated network.

import type { HolderInfo, LockInfo, Mode } from "../../core/store.ts";

/** Times are ms of the store's own clock; fences fit a double until the year 2255. */
export interface HolderRow {
  id: string;
  /** Which opened store it belongs to; empty when only `keepUntil` holds the key. */
  proc: string;
  mode: Mode;
  permits: number;
  label: string;
  actor: string;
  /** First fence of the grant; the `room` numbers above it belong to it too. */
  fence: number;
  room: number;
  /** The fence in use, as far as the holder has told. */
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
  /** Number and store time of its last heartbeat. */
  seq: number;
  seen: number;
  since: number;
  mode: Mode;
  permits: number;
  limit: number;
  ttlMs: number;
  graceMs: number;
  keepMs: number;
  /** Numbers behind its fence that it may use. Records of 0.1.0 lack it: one per microsecond of the ttl. */
  room?: number;
  label: string;
  actor: string;
  /** Set when it wants several keys at once. */
  keys?: readonly string[];
}

export interface KeyRecord {
  key: string;
  /** Means something only while somebody holds or waits. */
  limit: number;
  /** The largest fence that may have been used. */
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

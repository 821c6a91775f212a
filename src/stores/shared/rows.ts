// The rows of a record: how they come to be, how they are found, and which of them go together. Pure functions.

import type { Mode, Request } from "../../core/store.ts";
import type { HolderRow, KeyRecord, WaiterRow } from "./record.ts";

/** No claim is shorter than this, whatever the ttl: a waiter has to hear of its luck and answer. */
const SHORTEST_CLAIM_MS = 200;
const BEATS_PER_CLAIM = 4;

/** For how long a waiter is kept the key that it was chosen for. Not longer than its ttl, so that its death costs no more than a holder's. */
export function claimFor(claimMs: number, ttlMs: number): number {
  return Math.min(claimMs, Math.max(SHORTEST_CLAIM_MS, ttlMs));
}

/** How often a waiter has to be seen. */
export function heartbeatFor(claimMs: number, ttlMs: number): number {
  return claimFor(claimMs, ttlMs) / BEATS_PER_CLAIM;
}

export function newWaiter(request: Request, proc: string, nowMs: number): WaiterRow {
  const { id, seq, mode, permits, limit, ttlMs, graceMs, keepMs, reservedFences, label, actor, keys } =
    request;
  const row = {
    id,
    proc,
    seq,
    seen: nowMs,
    since: nowMs,
    mode,
    permits,
    limit,
    ttlMs,
    graceMs,
    keepMs,
    room: reservedFences,
    label,
    actor,
  };
  return keys.length > 1 ? { ...row, keys } : row;
}

/** A waiter becomes a holder for its claim window, counted from its last heartbeat. */
export function newHolder(
  waiter: WaiterRow,
  grant: { readonly fence: number; readonly room: number; readonly nowMs: number; readonly claimMs: number },
): HolderRow {
  const { id, proc, mode, permits, label, actor, seen, graceMs, keepMs } = waiter;
  const { fence, room, nowMs, claimMs } = grant;
  const until = seen + claimMs + graceMs;
  const keepUntil = keepMs === 0 ? 0 : nowMs + keepMs;
  return { id, proc, mode, permits, label, actor, fence, room, used: fence, since: nowMs, until, keepUntil };
}

export function holder(record: KeyRecord, id: string): HolderRow | undefined {
  return record.holders.find((row) => row.id === id);
}

export function holds(records: readonly KeyRecord[], id: string): boolean {
  return records.every((record) => holder(record, id) !== undefined);
}

export function unseat(record: KeyRecord, id: string): void {
  const at = record.line.findIndex((row) => row.id === id);
  if (at !== -1) record.line.splice(at, 1);
}

/**
 * Whether the waiter may hold beside those who hold now. A lock and a semaphore exclude each other, so all
 * holders are of one kind. Of a semaphore the limit that the waiter itself names counts: callers may name
 * different ones.
 */
export function fits(
  record: KeyRecord,
  waiter: { readonly mode: Mode; readonly permits: number; readonly limit: number },
): boolean {
  if (record.holders.length === 0) return true;
  if (waiter.limit > 1 !== record.limit > 1) return false;
  if (waiter.limit > 1) return sum(record.holders) + waiter.permits <= waiter.limit;
  return waiter.mode === "shared" && record.holders.every((row) => row.mode === "shared");
}

function sum(holders: readonly HolderRow[]): number {
  return holders.reduce((total, row) => total + row.permits, 0);
}

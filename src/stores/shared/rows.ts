// The rows of a record: making and finding them, and which holders fit together. Pure functions.

import type { Mode, Request } from "../../core/store.ts";
import type { HolderRow, KeyRecord, WaiterRow } from "./record.ts";

/** The minimum for any ttl: a chosen waiter needs time to receive the notification and attempt again. */
const SHORTEST_CLAIM_MS = 200;
const BEATS_PER_CLAIM = 4;

/**
 * How long the key stays reserved for a chosen waiter. At most its ttl, so that a dead waiter delays
 * others no longer than a dead holder.
 */
export function claimFor(claimMs: number, ttlMs: number): number {
  return Math.min(claimMs, Math.max(SHORTEST_CLAIM_MS, ttlMs));
}

/** The interval of a waiter's heartbeats. */
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

/** The holder row of a chosen waiter. It lasts for the claim window, counted from the last heartbeat. */
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

export function dequeue(record: KeyRecord, id: string): void {
  const at = record.line.findIndex((row) => row.id === id);
  if (at !== -1) record.line.splice(at, 1);
}

/**
 * Whether a waiter may hold the key beside its current holders. A lock and a semaphore exclude each
 * other, so all holders are of one kind. Callers of a semaphore may name different limits; the waiter's
 * own limit counts.
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

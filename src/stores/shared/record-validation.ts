// Validates records that were read from a file or a database. Another program may have written there, or
// a disk may have lost a part. A damaged record never counts as a free key, and the ledger never gets one
// (P19).

import { UnsafeStoreError } from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";
import type { HolderRow, WaiterRow } from "./record.ts";

type Check = (value: unknown) => boolean;
type Shape = Readonly<Record<string, Check>>;

const text: Check = (value) => typeof value === "string";
const maybeText: Check = (value) => value === undefined || text(value);
const time: Check = (value) => typeof value === "number" && Number.isFinite(value);
const count: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const maybeCount: Check = (value) => value === undefined || count(value);
const some: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 1;
const mode: Check = (value) => value === "exclusive" || value === "shared";
const texts: Check = (value) => value === undefined || (Array.isArray(value) && value.every(text));

const PERSON = { id: text, proc: text, mode, permits: some, label: text, actor: text, since: time };
const HOLDER: Readonly<Record<keyof HolderRow, Check>> = {
  ...PERSON,
  ...{ fence: count, room: count, used: count, until: time, keepUntil: time },
  ...{ waitingFor: maybeText, revoked: maybeText },
};
const WAITER: Readonly<Record<keyof WaiterRow, Check>> = {
  ...PERSON,
  ...{ seq: count, seen: time, limit: some, ttlMs: time, graceMs: time, keepMs: time },
  ...{ room: maybeCount, keys: texts },
};

function fits(value: unknown, shape: Shape): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(shape).every(([name, check]) => check((value as Record<string, unknown>)[name]));
}

/** `last` may be absent: some stores keep it elsewhere. */
export function isRecord(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { limit, last = 0, holders, line } = value as Record<string, unknown>;
  if (!some(limit) || !count(last) || !Array.isArray(holders) || !Array.isArray(line)) return false;
  return holders.every((row) => fits(row, HOLDER)) && line.every((row) => fits(row, WAITER));
}

/** The error for a damaged record in a lease table. */
export function damagedRow(key: string, cause?: unknown): UnsafeStoreError {
  return new UnsafeStoreError(
    `the record of ${showKey(key)} in the lease table is damaged, or holdfast did not write it, ` +
      "so the holder of the key is unknown",
    {
      setting: "record",
      fix: "stop every process that uses this key, then delete the row with this namespace and key",
      key,
      cause,
    },
  );
}

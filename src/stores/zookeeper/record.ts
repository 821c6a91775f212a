// What a node says of whoever made it: words for people, and what an operator or the holder itself has written since.

import type { HolderInfo, Request, WaiterInfo } from "../../core/store.ts";
import { UnsupportedError } from "../../core/errors.ts";
import type { Entry } from "./names.ts";
import type { Stat } from "./wire/ops.ts";

export interface PlaceRecord {
  readonly label: string;
  readonly actor: string;
  readonly ttlMs: number;
  readonly keepMs: number;
  /** Set when it wants several keys. */
  readonly keys?: readonly string[];
  /** The fence in use, where it is not the first. */
  readonly used?: string;
  readonly waitingFor?: string;
  readonly revoked?: string;
}

/** So many fences belong to a place: its own and those that follow, for hand-offs inside its process. */
const FENCES_PER_ZXID = 8_192n;
export const FENCE_ROOM: number = Number(FENCES_PER_ZXID) - 1;
const LARGEST_ZXID = 2n ** 63n / FENCES_PER_ZXID;

/** Zxids begin with the number of the leader's epoch in their upper half. */
export function fenceOf(zxid: bigint): bigint {
  if (zxid > 0n && zxid < LARGEST_ZXID) return zxid * FENCES_PER_ZXID;
  throw new UnsupportedError(
    `the ensemble has had ${zxid >> 32n} leaders, more than a fence of 64 bits can hold: start a new ensemble`,
  );
}

export function newRecord(request: Request): PlaceRecord {
  const { label, actor, ttlMs, keepMs, keys } = request;
  return { label, actor, ttlMs, keepMs, ...(keys.length > 1 ? { keys } : {}) };
}

export function writeRecord(record: PlaceRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

/** Whatever was written there: a record of an unknown shape reads as an empty one. */
export function readRecord(data: Buffer): PlaceRecord {
  const found = parse(data);
  const text = (name: keyof PlaceRecord): string => (typeof found[name] === "string" ? found[name] : "");
  const number = (name: keyof PlaceRecord): number =>
    Number.isFinite(found[name]) ? Number(found[name]) : 0;
  const keys = found.keys as unknown;
  return {
    label: text("label"),
    actor: text("actor"),
    ttlMs: number("ttlMs"),
    keepMs: number("keepMs"),
    ...(Array.isArray(keys) && keys.every((key) => typeof key === "string") ? { keys } : {}),
    ...(/^\d{1,19}$/.test(text("used")) ? { used: text("used") } : {}),
    ...(text("waitingFor") === "" ? {} : { waitingFor: text("waitingFor") }),
    ...(typeof found.revoked === "string" ? { revoked: found.revoked } : {}),
  };
}

function parse(data: Buffer): Partial<PlaceRecord> {
  try {
    const value: unknown = JSON.parse(data.toString());
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** One node as it was read. */
export interface Row {
  readonly entry: Entry;
  readonly stat: Stat;
  readonly record: PlaceRecord;
}

export function firstFence({ stat, entry, record }: Row): bigint {
  return entry.kept ? BigInt(record.used ?? 0) : fenceOf(stat.czxid);
}

/** How long it would still last is not known to anybody else: `lastsMs` is what a silent holder has at the most. */
export function holderInfo(row: Row, wallMs: number, lastsMs: number): HolderInfo {
  const { entry, stat, record } = row;
  return {
    label: record.label,
    mode: entry.mode,
    permits: entry.permits,
    fence: record.used === undefined ? firstFence(row) : BigInt(record.used),
    remainingMs: entry.kept ? Math.max(0, stat.ctime + record.keepMs - wallMs) : lastsMs,
    heldMs: Math.max(0, wallMs - stat.ctime),
    ...(record.waitingFor === undefined ? {} : { waitingFor: record.waitingFor }),
    ...(record.revoked === undefined ? {} : { revoked: record.revoked }),
    ...(entry.kept ? { kept: true } : {}),
  };
}

export function waiterInfo({ entry, stat, record }: Row, wallMs: number): WaiterInfo {
  const waitedMs = Math.max(0, wallMs - stat.ctime);
  return { label: record.label, mode: entry.mode, permits: entry.permits, waitedMs };
}

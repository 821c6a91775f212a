// The data of a queue node: details for people, and what an operator or the holder has written since. Nothing
// in it decides who holds; node names alone do.

import type { HolderInfo, Request, WaiterInfo } from "../../core/store.ts";
import { UnsupportedError } from "../../core/errors.ts";
import type { Entry } from "./paths.ts";
import type { Stat } from "./wire/ops.ts";

export interface NodeRecord {
  readonly label: string;
  readonly actor: string;
  readonly ttlMs: number;
  readonly keepMs: number;
  /** Set if the request is for several keys. */
  readonly keys?: readonly string[];
  /** The fence in use, if it is not the first. */
  readonly used?: string;
  readonly waitingFor?: string;
  readonly revoked?: string;
}

/** Fences per queue node: its own, and those for hand-offs inside its process. */
const FENCES_PER_ZXID = 8_192n;
export const FENCE_ROOM: number = Number(FENCES_PER_ZXID) - 1;
const LARGEST_ZXID = 2n ** 63n / FENCES_PER_ZXID;

/** The upper half of a zxid is the epoch of its leader. */
export function fenceOf(zxid: bigint): bigint {
  if (zxid > 0n && zxid < LARGEST_ZXID) return zxid * FENCES_PER_ZXID;
  throw new UnsupportedError(
    `the ensemble has had ${zxid >> 32n} leaders, more than fit a fence of 64 bits: start a new ensemble`,
  );
}

export function newRecord(request: Request): NodeRecord {
  const { label, actor, ttlMs, keepMs, keys } = request;
  return { label, actor, ttlMs, keepMs, ...(keys.length > 1 ? { keys } : {}) };
}

export function writeRecord(record: NodeRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

/** A record of an unknown shape reads as an empty one. */
export function readRecord(data: Buffer): NodeRecord {
  const found = parse(data);
  const text = (name: keyof NodeRecord): string => (typeof found[name] === "string" ? found[name] : "");
  const number = (name: keyof NodeRecord): number => (Number.isFinite(found[name]) ? Number(found[name]) : 0);
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

function parse(data: Buffer): Partial<NodeRecord> {
  try {
    const value: unknown = JSON.parse(data.toString());
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** One node with its data. */
export interface Row {
  readonly entry: Entry;
  readonly stat: Stat;
  readonly record: NodeRecord;
}

export function firstFence({ stat, entry, record }: Row): bigint {
  return entry.isKept ? BigInt(record.used ?? 0) : fenceOf(stat.czxid);
}

/** Nobody else knows how long it still lasts: `lastsMs` is what a silent holder has at most. */
export function holderInfo(row: Row, nowMs: number, lastsMs: number): HolderInfo {
  const { entry, stat, record } = row;
  return {
    label: record.label,
    mode: entry.mode,
    permits: entry.permits,
    fence: record.used === undefined ? firstFence(row) : BigInt(record.used),
    remainingMs: entry.isKept ? Math.max(0, stat.ctime + record.keepMs - nowMs) : lastsMs,
    heldMs: Math.max(0, nowMs - stat.ctime),
    ...(record.waitingFor === undefined ? {} : { waitingFor: record.waitingFor }),
    ...(record.revoked === undefined ? {} : { revoked: record.revoked }),
    ...(entry.isKept ? { kept: true } : {}),
  };
}

export function waiterInfo({ entry, stat, record }: Row, nowMs: number): WaiterInfo {
  const waitedMs = Math.max(0, nowMs - stat.ctime);
  return { label: record.label, mode: entry.mode, permits: entry.permits, waitedMs };
}

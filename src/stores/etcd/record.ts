// The value of a queue key: details for people and operators. Nothing in it decides who holds; key names and
// revisions alone do.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { Mode, Request } from "../../core/store.ts";
import type { Keys } from "./keys.ts";
import type { KeyValue } from "./protocol/messages.ts";

export interface Details {
  readonly label: string;
  readonly actor: string;
  readonly permits: number;
  readonly ttlMs: number;
  readonly graceMs: number;
  /** The open store that it belongs to. The short names of these fields are the record format. */
  readonly proc: string;
  /** Wall clock of its process, for people only. */
  readonly sinceMs: number;
  /** The fence in use, once the lease was handed off. */
  readonly used?: string;
  readonly waitingFor?: string;
  readonly revoked?: string;
  /** Set if the request is for several keys. */
  readonly keys?: readonly string[];
  /** Of a record that outlives its holder: the fence of that holder. */
  readonly fence?: string;
}

/** One queue key of a lock, parsed. */
export interface Row {
  readonly name: string;
  readonly id: string;
  readonly limit: number;
  readonly mode: Mode;
  /** It outlives its holder (`keepMs`). */
  readonly isKept: boolean;
  /** Creation revision: its position in the queue. */
  readonly revision: number;
  readonly modRevision: number;
  readonly lease: number;
  readonly details: Details;
}

/** An exclusive holder may use this many fences above its own. */
const FENCE_BITS = 13;
export const FENCE_ROOM: number = 2 ** FENCE_BITS - 1;
/** Fences must fit a signed column of 64 bits. */
const LAST_REVISION = 2 ** (63 - FENCE_BITS);

export function fenceOf(revision: number): bigint {
  if (revision < LAST_REVISION) return BigInt(revision) << BigInt(FENCE_BITS);
  throw new UnsafeStoreError(`etcd's revision ${revision} is too large to make a fence of 64 bits from it`, {
    setting: "revision",
    fix: "use an etcd of its own for locks: its revisions start at 1",
  });
}

export function newDetails(request: Request, storeId: string, sinceMs: number): Details {
  const { label, actor, permits, ttlMs, graceMs, keys } = request;
  const details = { label, actor, permits, ttlMs, graceMs, proc: storeId, sinceMs };
  return keys.length > 1 ? { ...details, keys } : details;
}

/** @throws UnsafeStoreError if holdfast did not write it. */
export function readRow(kv: KeyValue, keys: Keys): Row {
  const parsed = keys.parse(kv.key);
  const details = parseDetails(kv.value);
  if (parsed === null || details === null) {
    const name = JSON.stringify(kv.key.slice(0, 200));
    throw new UnsafeStoreError(`etcd has a key among those of a lock that holdfast did not write: ${name}`, {
      setting: "namespace",
      fix:
        "give holdfast a namespace of its own, or use one version of it for all processes; " +
        "you may delete a key that is left over",
      key: keys.lockOf(kv.key),
    });
  }
  const { createRevision: revision, modRevision, lease, key: name } = kv;
  const { id, limit, mode, isKept } = parsed;
  return { name, id, limit, mode, isKept, revision, modRevision, lease, details };
}

function parseDetails(text: string): Details | null {
  try {
    const details = JSON.parse(text) as Details | null;
    return typeof details === "object" && details !== null && isValid(details) ? details : null;
  } catch {
    return null;
  }
}

function isValid({ label, actor, permits, ttlMs, graceMs, sinceMs, ...rest }: Details): boolean {
  const texts = [label, actor, rest.proc].every((one) => typeof one === "string");
  const times = [ttlMs, graceMs, sinceMs].every((one) => Number.isFinite(one));
  const fences = [rest.used, rest.fence].every((one) => one === undefined || /^\d{1,19}$/.test(String(one)));
  const notes = [rest.waitingFor, rest.revoked].every((one) => one === undefined || typeof one === "string");
  const keys =
    rest.keys === undefined ||
    (Array.isArray(rest.keys) && rest.keys.every((one) => typeof one === "string"));
  return texts && times && fences && notes && keys && Number.isSafeInteger(permits) && permits >= 1;
}

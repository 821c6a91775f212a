// What stands in etcd under the name of one who wants, holds or has kept a lock: words for people and for operators. Nothing
// of it decides who holds; that is decided by names and revisions alone.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { Mode, Request } from "../../core/store.ts";
import type { KeyValue } from "./messages.ts";
import type { Names } from "./names.ts";

export interface Words {
  readonly label: string;
  readonly actor: string;
  readonly permits: number;
  readonly ttlMs: number;
  readonly graceMs: number;
  /** Which opened store it belongs to. */
  readonly proc: string;
  /** Calendar ms of its process: for people only. */
  readonly sinceMs: number;
  /** The fence in use, once the lease was handed on. */
  readonly used?: string;
  readonly waitingFor?: string;
  readonly revoked?: string;
  /** Set when it wants several keys at once. */
  readonly keys?: readonly string[];
  /** Of a kept record: the fence that its holder had. */
  readonly fence?: string;
}

/** One name under a lock, with what the server says of it. */
export interface Row {
  readonly name: string;
  readonly id: string;
  readonly limit: number;
  readonly mode: Mode;
  readonly kept: boolean;
  /** Its place in line. */
  readonly revision: number;
  readonly modRevision: number;
  readonly lease: number;
  readonly words: Words;
}

/** A lone holder may use so many numbers above its fence. */
const FENCE_BITS = 13;
export const FENCE_ROOM: number = 2 ** FENCE_BITS - 1;
/** Fences must fit a signed column of 64 bits. */
const LAST_REVISION = 2 ** (63 - FENCE_BITS);

export function fenceOf(revision: number): bigint {
  if (revision >= LAST_REVISION) {
    throw new UnsafeStoreError(
      `etcd's revision ${revision} is too large to make a fence of 64 bits from it`,
      {
        setting: "revision",
        fix: "use an etcd of its own for locks: its revisions start at 1",
      },
    );
  }
  return BigInt(revision) << BigInt(FENCE_BITS);
}

export function newWords(request: Request, proc: string, sinceMs: number): Words {
  const { label, actor, permits, ttlMs, graceMs, keys } = request;
  const words = { label, actor, permits, ttlMs, graceMs, proc, sinceMs };
  return keys.length > 1 ? { ...words, keys } : words;
}

/** Throws when holdfast did not write it. */
export function readRow(kv: KeyValue, names: Names): Row {
  const place = names.place(kv.key);
  const words = parse(kv.value);
  if (place === null || words === null) {
    throw new UnsafeStoreError(
      `etcd holds something under the name of a lock that holdfast did not write: ${JSON.stringify(kv.key.slice(0, 200))}`,
      {
        setting: "namespace",
        fix: "give holdfast a namespace of its own, or use one version of it for all processes; what is left over may be deleted",
        key: names.keyOf(kv.key),
      },
    );
  }
  const { createRevision: revision, modRevision, lease, key: name } = kv;
  const { id, limit, mode, kept } = place;
  return { name, id, limit, mode, kept, revision, modRevision, lease, words };
}

function parse(text: string): Words | null {
  try {
    const words = JSON.parse(text) as Words | null;
    return typeof words === "object" && words !== null && isWhole(words) ? words : null;
  } catch {
    return null;
  }
}

/** What people read may be anything that can be shown; what is reckoned with must be right. */
function isWhole({ label, actor, permits, ttlMs, graceMs, sinceMs, ...rest }: Words): boolean {
  const texts = [label, actor, rest.proc].every((one) => typeof one === "string");
  const times = [ttlMs, graceMs, sinceMs].every((one) => Number.isFinite(one));
  const fences = [rest.used, rest.fence].every((one) => one === undefined || /^\d{1,19}$/.test(String(one)));
  const notes = [rest.waitingFor, rest.revoked].every((one) => one === undefined || typeof one === "string");
  const keys =
    rest.keys === undefined ||
    (Array.isArray(rest.keys) && rest.keys.every((one) => typeof one === "string"));
  return texts && times && fences && notes && keys && Number.isSafeInteger(permits) && permits >= 1;
}

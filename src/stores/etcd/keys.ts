// The names of keys in etcd. All keys of a lock have one prefix that no other lock has: slashes and percent
// signs of a lock's key are escaped, and nothing else is changed (P18).
//
//   NAMESPACE/k/KEY/LIMIT/w/ID    a request that waits for the lock or holds it; r instead of w if shared
//   NAMESPACE/k/KEY/LIMIT/kw/ID   the lock stays taken although its holder may be gone; kr if shared
//   NAMESPACE/x/ID/LEASE          tombstone: an attempt of this id with this lease changes nothing
//   NAMESPACE/i/STORE/ID          inbox of an open store: this id was revoked

import type { Mode, Request } from "../../core/store.ts";

export interface KeyRange {
  readonly key: string;
  readonly end: string;
}

/** What the name of a queue key says. */
export interface ParsedKey {
  readonly key: string;
  readonly limit: number;
  readonly mode: Mode;
  readonly isKept: boolean;
  readonly id: string;
}

/** What the names of a request's keys contain. */
type Named = Pick<Request, "keys" | "limit" | "mode" | "id">;

const ESCAPED = /[%/]/g;
const ESCAPES = /%(25|2F)/g;
const NAME = /^([^/]*)\/([1-9]\d*)\/(k?)([wr])\/([0-9a-f]+)$/;

export function escapeKey(text: string): string {
  return text.replace(ESCAPED, (char) => (char === "%" ? "%25" : "%2F"));
}

export function unescapeKey(text: string): string {
  return text.replace(ESCAPES, (_all, code: string) => (code === "25" ? "%" : "/"));
}

/** All keys that begin with `prefix`. It ends in a slash, and the character after the slash is 0. */
function rangeOf(prefix: string): KeyRange {
  return { key: prefix, end: `${prefix.slice(0, -1)}0` };
}

export class Keys {
  readonly #root: string;
  readonly #namespace: string;

  constructor(namespace: string) {
    this.#namespace = escapeKey(namespace);
    this.#root = `${this.#namespace}/k/`;
  }

  /** All locks of this namespace. */
  get locks(): KeyRange {
    return rangeOf(this.#root);
  }

  /** The first possible key of the locks that begin with `prefix`. */
  firstOf(prefix: string): string {
    return this.#root + escapeKey(prefix);
  }

  lock(key: string): KeyRange {
    return rangeOf(`${this.#root}${escapeKey(key)}/`);
  }

  /** All keys of the lock with this limit. */
  ofLimit(key: string, limit: number): KeyRange {
    return rangeOf(`${this.lock(key).key}${limit}/`);
  }

  /** All keys of the lock as a semaphore, of any limit. The limit 1 sorts before all others. */
  semaphores(key: string): KeyRange {
    return { key: this.ofLimit(key, 1).end, end: this.lock(key).end };
  }

  /** The queue of one mode: requests that hold or wait. */
  queue(key: string, limit: number, mode: Mode): KeyRange {
    return rangeOf(`${this.ofLimit(key, limit).key}${mode === "shared" ? "r" : "w"}/`);
  }

  kept(key: string, limit: number, mode: Mode): KeyRange {
    return rangeOf(`${this.ofLimit(key, limit).key}${mode === "shared" ? "kr" : "kw"}/`);
  }

  /** Kept keys of both modes. */
  allKept(key: string, limit: number): KeyRange {
    const { key: prefix } = this.ofLimit(key, limit);
    return { key: `${prefix}kr/`, end: `${prefix}kw0` };
  }

  /** The queue keys of a request, one per key. */
  ofRequest({ keys, limit, mode, id }: Named): string[] {
    return keys.map((key) => this.queue(key, limit, mode).key + id);
  }

  keptOfRequest({ keys, limit, mode, id }: Named): string[] {
    return keys.map((key) => this.kept(key, limit, mode).key + id);
  }

  tombstone(id: string, lease: number): string {
    return `${this.#namespace}/x/${id}/${lease}`;
  }

  inbox(storeId: string): KeyRange {
    return rangeOf(`${this.#namespace}/i/${storeId}/`);
  }

  /** The lock that a name belongs to, whoever wrote it; undefined outside of all locks. */
  lockOf(name: string): string | undefined {
    if (!name.startsWith(this.#root)) return undefined;
    return unescapeKey(name.slice(this.#root.length).split("/")[0] ?? "");
  }

  /** Null if it is not the name of a queue key. */
  parse(name: string): ParsedKey | null {
    if (!name.startsWith(this.#root)) return null;
    const parts = NAME.exec(name.slice(this.#root.length));
    if (parts === null) return null;
    const [, key = "", limit = "", kept, mode, id = ""] = parts;
    return {
      key: unescapeKey(key),
      limit: Number(limit),
      mode: mode === "r" ? "shared" : "exclusive",
      isKept: kept === "k",
      id,
    };
  }
}

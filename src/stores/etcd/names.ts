// How things are called in etcd. Everything of a lock lies under one prefix that no other lock's name begins with: slashes
// and percent signs of a key are escaped, nothing else is changed (P18).
//
//   NAMESPACE/k/KEY/LIMIT/w/ID    who wants or holds the lock; r instead of w for a reader
//   NAMESPACE/k/KEY/LIMIT/kw/ID   the lock stays taken although its holder may be gone; kr for a reader's
//   NAMESPACE/x/ID/LEASE          this id has ended: an attempt with this lease that arrives late changes nothing
//   NAMESPACE/i/PROCESS/ID        news for a process: this id was revoked

import type { Mode } from "../../core/store.ts";

export interface Span {
  readonly key: string;
  readonly end: string;
}

/** What a name under `k/` says. */
export interface Place {
  readonly key: string;
  readonly limit: number;
  readonly mode: Mode;
  readonly kept: boolean;
  readonly id: string;
}

const ESCAPED = /[%/]/g;
const ESCAPES = /%(25|2F)/g;
const NAME = /^([^/]*)\/([1-9]\d*)\/(k?)([wr])\/([0-9a-f]+)$/;

export function escapeName(text: string): string {
  return text.replace(ESCAPED, (char) => (char === "%" ? "%25" : "%2F"));
}

export function unescapeName(text: string): string {
  return text.replace(ESCAPES, (_all, code: string) => (code === "25" ? "%" : "/"));
}

/** Everything that begins with `prefix`, which ends in a slash: the character after the slash is 0. */
function under(prefix: string): Span {
  return { key: prefix, end: `${prefix.slice(0, -1)}0` };
}

export class Names {
  readonly #root: string;
  readonly #namespace: string;

  constructor(namespace: string) {
    this.#namespace = escapeName(namespace);
    this.#root = `${this.#namespace}/k/`;
  }

  /** Where the locks of this namespace are. */
  get locks(): Span {
    return under(this.#root);
  }

  /** Locks whose key begins with `prefix` come from here on, before all others. */
  firstOf(prefix: string): string {
    return this.#root + escapeName(prefix);
  }

  lock(key: string): Span {
    return under(`${this.#root}${escapeName(key)}/`);
  }

  /** Whoever uses the lock with this limit. */
  size(key: string, limit: number): Span {
    return under(`${this.lock(key).key}${limit}/`);
  }

  /** Whoever uses it as a semaphore, with any limit. Of all limits 1 comes first. */
  semaphores(key: string): Span {
    return { key: this.size(key, 1).end, end: this.lock(key).end };
  }

  /** Those of one mode, who hold or wait. */
  line(key: string, limit: number, mode: Mode): Span {
    return under(`${this.size(key, limit).key}${mode === "shared" ? "r" : "w"}/`);
  }

  keptLine(key: string, limit: number, mode: Mode): Span {
    return under(`${this.size(key, limit).key}${mode === "shared" ? "kr" : "kw"}/`);
  }

  /** What is kept, of both modes. */
  allKept(key: string, limit: number): Span {
    const { key: prefix } = this.size(key, limit);
    return { key: `${prefix}kr/`, end: `${prefix}kw0` };
  }

  own(key: string, limit: number, mode: Mode, id: string): string {
    return this.line(key, limit, mode).key + id;
  }

  kept(key: string, limit: number, mode: Mode, id: string): string {
    return this.keptLine(key, limit, mode).key + id;
  }

  tomb(id: string, lease: number): string {
    return `${this.#namespace}/x/${id}/${lease}`;
  }

  /** News for a process. */
  inbox(proc: string): Span {
    return under(`${this.#namespace}/i/${proc}/`);
  }

  /** Which key a name lies under, ours or not; undefined outside of all keys. */
  keyOf(name: string): string | undefined {
    if (!name.startsWith(this.#root)) return undefined;
    return unescapeName(name.slice(this.#root.length).split("/")[0] ?? "");
  }

  /** Null when the name is none of ours. */
  place(name: string): Place | null {
    if (!name.startsWith(this.#root)) return null;
    const parts = NAME.exec(name.slice(this.#root.length));
    if (parts === null) return null;
    const [, key = "", limit = "", kept, mode, id = ""] = parts;
    return {
      key: unescapeName(key),
      limit: Number(limit),
      mode: mode === "r" ? "shared" : "exclusive",
      kept: kept === "k",
      id,
    };
  }
}

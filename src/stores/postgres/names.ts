// How things are called in PostgreSQL: rows of keys, opened stores and their channels, and texts as people
// may read them.

import { createHash } from "node:crypto";
import type { System } from "../../core/system.ts";

const CHANNEL = "holdfast_";
const PROC_LENGTH = 16;
const ASCII = /^[\x20-\x7e]*$/;
const CONTROL = /\p{Cc}/u;
const NAMES_REMEMBERED = 4_096;

/**
 * A row: the digest by which the server finds it, because an index has no room for every key, and the key.
 */
export interface RowName {
  readonly digest: Buffer;
  readonly key: Buffer;
}

/** The names of one namespace. The latest are remembered: a key that was acquired is released, too. */
export class RowNames {
  readonly #namespace: string;
  readonly #names = new Map<string, RowName>();

  constructor(namespace: string) {
    this.#namespace = namespace;
  }

  of(key: string): RowName {
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const digest = createHash("sha256").update(`${this.#namespace}\0${key}`).digest();
    const name = { digest, key: Buffer.from(key) };
    if (this.#names.size >= NAMES_REMEMBERED) this.#names.clear();
    this.#names.set(key, name);
    return name;
  }

  /** In the order in which every process locks rows, so that no two wait for each other. */
  sorted(keys: readonly string[]): readonly RowName[] {
    if (keys.length === 1) return [this.of(keys[0] as string)];
    return keys.map((key) => this.of(key)).sort((a, b) => Buffer.compare(a.digest, b.digest));
  }
}

/** Which opened store: random, and part of the name of its channel. */
export function newProc(system: System): string {
  return system.randomId().slice(0, PROC_LENGTH);
}

export function channelOf(proc: string): string {
  return CHANNEL + proc.replace(/@.*$/, "");
}

/** For people: host and process of this opened store. */
export function whoIs(label: string): { readonly host: string; readonly process: string } {
  const [, host = "", process = ""] = /^(.*):(\d+)$/.exec(label) ?? [];
  return { host, process };
}

/** The text itself, or what a column of the database can keep of it. */
export function showText(text: string, utf8: boolean): string {
  if (ASCII.test(text) || (utf8 && text.isWellFormed() && !CONTROL.test(text))) return text;
  return text.replaceAll(utf8 ? /[\p{Cc}\p{Cs}]/gu : /[^\x20-\x7e]/g, "?");
}

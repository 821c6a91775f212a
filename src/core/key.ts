// What a key may be, and the order in which several are taken (P18). A key is never trimmed, folded or normalised.

import { InvalidArgumentError } from "./errors.ts";

const MAX_KEY_BYTES = 4_096;

const UNSEEN = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A key as it may stand in a message: quoted, control characters escaped, cut when long. */
export function showKey(key: string): string {
  // JSON leaves characters alone that a terminal may act on or that turn the reading direction.
  const text = JSON.stringify(key).replace(UNSEEN, escaped);
  return text.length <= 120 ? text : `${text.slice(0, 100)}…" (${Buffer.byteLength(key)} bytes)`;
}

export function checkKey(key: unknown): string {
  if (typeof key !== "string") {
    throw new InvalidArgumentError(`a key is a string, not ${key === null ? "null" : typeof key}`);
  }
  if (key === "") throw new InvalidArgumentError("the key is empty: name what is to be locked", { key });
  // Length in UTF-16 units is a lower bound of the bytes, and cheap for a 10 MB mistake.
  if (key.length > MAX_KEY_BYTES || Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new InvalidArgumentError(
      `the key starting ${JSON.stringify(key.slice(0, 40))} is longer than ${MAX_KEY_BYTES} bytes of UTF-8: lock a digest of it instead`,
    );
  }
  if (!key.isWellFormed()) {
    throw new InvalidArgumentError(
      `the key ${JSON.stringify(key.slice(0, 40))} holds an unpaired surrogate and has no UTF-8 form: keys are exact, so it cannot be mended silently`,
    );
  }
  return key;
}

/** One key or several: checked, distinct, in the one order (UTF-8 bytes) that every process takes them in. */
export function canonicalKeys(key: unknown): readonly string[] {
  if (!Array.isArray(key)) return [checkKey(key)];
  if (key.length === 0) throw new InvalidArgumentError("the array of keys is empty: name at least one key");
  const distinct = new Set<string>();
  for (const one of key) distinct.add(checkKey(one));
  return [...distinct].sort(compareBytes);
}

/** UTF-16 order differs from UTF-8 order beyond the basic plane; all processes and languages agree on bytes. */
function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

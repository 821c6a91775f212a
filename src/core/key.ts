// Validates keys, and defines the order in which several keys are acquired (P18). holdfast never trims, folds
// or normalises a key.

import { InvalidArgumentError } from "./errors.ts";

const MAX_KEY_BYTES = 4_096;

/** Invisible characters: controls, separators of lines, and marks that change the reading direction. */
const INVISIBLE = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A key for a message: quoted, with invisible characters escaped, and truncated if it is long. */
export function showKey(key: string): string {
  // JSON does not escape all characters that a terminal interprets.
  const text = JSON.stringify(key).replace(INVISIBLE, escaped);
  return text.length <= 120 ? text : `${text.slice(0, 100)}…" (${Buffer.byteLength(key)} bytes)`;
}

function start(key: string): string {
  return JSON.stringify(key.slice(0, 40));
}

export function checkKey(key: unknown): string {
  if (typeof key !== "string") {
    throw new InvalidArgumentError(`key must be a string, got ${key === null ? "null" : typeof key}`);
  }
  if (key === "")
    throw new InvalidArgumentError('key must not be empty, got "": name the thing to lock', { key });
  // The length in UTF-16 units is never more than the bytes of UTF-8. It rejects a huge key without
  // encoding it.
  if (key.length > MAX_KEY_BYTES || Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new InvalidArgumentError(
      `key must be at most ${MAX_KEY_BYTES} bytes of UTF-8, got a longer one that starts with ` +
        `${start(key)}: lock a digest of it instead`,
    );
  }
  if (!key.isWellFormed()) {
    throw new InvalidArgumentError(
      `key must be well-formed Unicode, got an unpaired surrogate in ${start(key)}: ` +
        "encode binary data, for example in hex",
    );
  }
  return key;
}

/**
 * Valid keys without duplicates, in the order of their UTF-8 bytes. Every process acquires them in this
 * order.
 */
export function canonicalKeys(key: unknown): readonly string[] {
  if (!Array.isArray(key)) return [checkKey(key)];
  if (key.length === 0)
    throw new InvalidArgumentError("keys must not be an empty array: name at least one key");
  const distinct = new Set<string>();
  for (const one of key) distinct.add(checkKey(one));
  return [...distinct].sort(compareBytes);
}

/** Not the order of JavaScript strings: UTF-16 sorts characters above U+FFFF differently than UTF-8. */
function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

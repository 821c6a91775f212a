// The Redis keys of a lock: `namespace:{key}`. The text between the braces decides the hash slot, so
// everything of one lock is in one slot. Braces in the key itself are escaped, and so is the escape. Nothing
// else is changed (P18).

const ESCAPED = /[%{}]/g;
const HAS_ESCAPED = /[%{}]/;
const ESCAPES = /%(25|7B|7D)/g;
const GLOB = /[*?[\]\\^]/g;

function escapeKey(key: string): string {
  if (!HAS_ESCAPED.test(key)) return key;
  return key.replace(ESCAPED, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function unescapeKey(text: string): string {
  return text.replace(ESCAPES, (_all, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

export class RedisKeys {
  /** The highest fence of the namespace. */
  readonly clock: string;
  readonly #namespace: string;
  readonly #start: string;

  constructor(namespace: string) {
    this.#namespace = namespace;
    this.#start = `${namespace}:{`;
    this.clock = `${namespace}:clock`;
  }

  /** The record of a lock. */
  record(key: string): string {
    return `${this.#start}${escapeKey(key)}}`;
  }

  /** When each reader or permit holder of a lock ends. */
  ends(key: string): string {
    return `${this.record(key)}:e`;
  }

  /** The key of a record, or null if the Redis key is not a record of this namespace. */
  key(record: string): string | null {
    if (!record.startsWith(this.#start) || !record.endsWith("}")) return null;
    return unescapeKey(record.slice(this.#start.length, -1));
  }

  /** A pattern for SCAN that fits the records of all keys with this prefix. */
  pattern(prefix: string): string {
    return `${escapeGlob(`${this.#start}${escapeKey(prefix)}`)}*`;
  }

  /** The start of the channels of this namespace. The rest is the opened store that listens. */
  get channels(): string {
    return `${this.#namespace}:push:`;
  }
}

export function escapeGlob(text: string): string {
  return text.replace(GLOB, (char) => `\\${char}`);
}

// The record of one key in its file. Keeps the parsed record as long as the text in the file is the one it came from, and
// writes only what has changed.

import { emptyRecord, type KeyRecord } from "../shared/record.ts";
import { isRecord } from "../shared/record-shape.ts";
import { damaged } from "./errors.ts";
import { HEARTBEAT_MS } from "./guarantees.ts";
import { GONE, type SlotFile } from "./slot-file.ts";

const ASK_EVERY = 8;

/** The whole name stands in the file, and is compared: a file name is only a digest (P18). */
export interface KeyName {
  readonly namespace: string;
  readonly key: string;
}

export class KeyFile {
  readonly slots: SlotFile;
  readonly #name: KeyName;
  readonly #head: string;
  #text = "";
  #record: KeyRecord | null = null;
  #linkedAtMs = Number.NEGATIVE_INFINITY;
  #turns = 0;

  constructor(slots: SlotFile, name: KeyName) {
    this.slots = slots;
    this.#name = name;
    this.#head = head(name.namespace);
  }

  /** Whether others wait in vain for the latch; asked every few times only, because asking costs as much as latching. */
  crowded(): boolean {
    this.#turns += 1;
    return this.#turns % ASK_EVERY === 0 && this.slots.wanted;
  }

  /**
   * Whether this is still the key's file. Our own clean-up marks what it removes, which costs nothing to see; a removal
   * by somebody else is looked for once in a while, because asking for it makes the next write dearer by half.
   */
  current(nowMs: number): boolean {
    if (this.slots.read() === GONE) return false;
    if (nowMs - this.#linkedAtMs < HEARTBEAT_MS) return true;
    if (!this.slots.linked) return false;
    this.#linkedAtMs = nowMs;
    return true;
  }

  /** Only under the latch, and after `current` under the same latch. The record may be changed in place, then saved or forgotten. */
  load(): KeyRecord {
    const text = this.slots.text;
    if (this.#record === null || text !== this.#text) {
      this.#record = this.#parse(text);
      this.#text = text;
    }
    return this.#record;
  }

  /** What the record says now, as a copy, or null if this is the key's file no more; needs no latch. */
  snapshot(): KeyRecord | null {
    const text = this.slots.peek();
    return text === GONE || !this.slots.linked ? null : this.#parse(text);
  }

  /** The text that stands in the file, to go back to. */
  get saved(): string {
    return this.#text;
  }

  /** Writes the loaded record if it has changed, and says whether it had. */
  save(): boolean {
    const text = `${this.#head}${JSON.stringify(this.#record)}}`;
    if (text === this.#text) return false;
    this.slots.write(text);
    this.#text = text;
    return true;
  }

  /** Puts an earlier text back: the rest of the step it belongs to could not be written. */
  restore(text: string): void {
    this.slots.write(text);
    this.forget();
  }

  /** The record in memory was changed and the file was not. */
  forget(): void {
    this.#record = null;
  }

  #parse(text: string): KeyRecord {
    const { namespace, record } = parseRecord(text, this.slots.path, this.#name.key);
    if (namespace !== this.#name.namespace || record.key !== this.#name.key) {
      throw damaged(this.slots.path, "it holds the record of another key", this.#name.key);
    }
    return record;
  }
}

export function emptyText(name: KeyName): string {
  return `${head(name.namespace)}${JSON.stringify(emptyRecord(name.key))}}`;
}

export function parseRecord(
  text: string,
  path: string,
  key?: string,
): { namespace: string; record: KeyRecord } {
  try {
    const { namespace, record } = JSON.parse(text) as { namespace: string; record: KeyRecord };
    if (typeof namespace === "string" && typeof record.key === "string" && isRecord(record)) {
      return { namespace, record };
    }
  } catch {
    // Said below: a correct checksum over something that is not a record.
  }
  throw damaged(path, "it does not hold a record", key);
}

function head(namespace: string): string {
  return `{"namespace":${JSON.stringify(namespace)},"record":`;
}

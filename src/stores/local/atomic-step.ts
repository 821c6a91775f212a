// One atomic step over the records of one or several keys: decide by the rules (shared/ledger.ts), append,
// and see whether the step counts. A step that does not count starts over with the newer records. All of it
// is synchronous.

import type { Io } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { Ledger, type Wake } from "../shared/ledger.ts";
import { emptyRecord, isIdle, type KeyRecord } from "../shared/record.ts";
import { isRecord } from "../shared/record-shape.ts";
import { closedError, damaged, fileError } from "./errors.ts";
import { CLAIM_MS } from "./guarantees.ts";
import type { Entry, Log } from "./log.ts";
import type { LineChange } from "./log-format.ts";

/** So many tries in a row before other work of this process gets its turn. */
const TRIES = 64;
/** Parsed records that are kept. More keys than this are parsed again when they are used. */
const PARSED_RECORDS = 1_024;
/** A waiter that was silent for so long has left: its record is not carried over to the next log. */
const FORGOTTEN_MS: number = CLAIM_MS * 60;

export type Decide<T> = (ledger: Ledger, record: (key: string) => KeyRecord) => T;

export interface StepContext {
  readonly system: System;
  readonly log: Log;
  readonly self: string;
  /** For error messages. */
  readonly path: string;
  isAlive(process: string): boolean;
  notify(wake: Wake): void;
}

interface Loaded {
  readonly key: string;
  readonly jsonKey: string;
  readonly entry: Entry | undefined;
  readonly record: KeyRecord;
}

export class AtomicStep {
  readonly #context: StepContext;
  /** By key in JSON: the text that was parsed, and the record. A record in here may be changed in place. */
  readonly #parsed = new Map<string, { readonly text: string; readonly record: KeyRecord }>();
  #isStopped = false;

  constructor(context: StepContext) {
    this.#context = context;
  }

  /** Steps that are still trying end with an error. */
  stop(): void {
    this.#isStopped = true;
  }

  /** `frees`: the step gives something back, so on a full disk it may use the spare file. */
  async run<T>(keys: readonly string[], frees: boolean, io: Io, decide: Decide<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const isRetry = tries % TRIES !== 1;
      const done = this.#try(keys, frees, isRetry, decide);
      if (done !== null) return done.answer;
      if (tries % TRIES === 0) await io.sleep(0);
    }
  }

  /** Decides over copies of the newest records, without effect. */
  read<T>(keys: readonly string[], decide: Decide<T>): T {
    const { log, path } = this.#context;
    if (this.#isStopped) throw closedError(keys[0]);
    const records = new Map<string, KeyRecord>();
    try {
      log.refresh();
      for (const key of keys) {
        const entry = log.get(JSON.stringify(key));
        records.set(key, entry === undefined ? emptyRecord(key) : this.#parse(key, entry));
      }
    } catch (error) {
      throw fileError(error, "read", path, keys[0]);
    }
    return decide(this.#ledger(records), (key) => records.get(key) as KeyRecord);
  }

  /** Null if another process was faster. `isRetry`: the log was read to its end just before. */
  #try<T>(
    keys: readonly string[],
    frees: boolean,
    isRetry: boolean,
    decide: Decide<T>,
  ): { readonly answer: T } | null {
    const { log, system, path } = this.#context;
    if (this.#isStopped) throw closedError(keys[0]);
    try {
      // A decision over records that are out of date is not harmful: the log does not count it. So nothing is
      // read first where the records of all keys are at hand. The append reads what is new.
      const isFresh = isRetry || !this.#isKnown(keys);
      if (isFresh && !isRetry) log.refresh();
      const loaded = keys.map((key) => this.#load(key));
      const records = new Map(loaded.map(({ key, record }) => [key, record]));
      const ledger = this.#ledger(records);
      const answer = decide(ledger, (key) => records.get(key) as KeyRecord);
      const changes = changesOf(loaded);
      if (changes === null) {
        if (isFresh) return { answer };
        // Nothing was appended, so nothing showed whether the records were the newest: look, and decide
        // again.
        log.refresh();
        return null;
      }
      if (!log.append(changes, micros(system.monoMs()), frees)) {
        this.#forget(keys);
        return null;
      }
      this.#keep(loaded, changes);
      for (const wake of ledger.wakes) this.#context.notify(wake);
      return { answer };
    } catch (error) {
      this.#forget(keys);
      throw fileError(error, "change", path, keys[0]);
    }
  }

  #isKnown(keys: readonly string[]): boolean {
    return keys.every((key) => this.#parsed.has(JSON.stringify(key)));
  }

  #load(key: string): Loaded {
    const jsonKey = JSON.stringify(key);
    const entry = this.#context.log.get(jsonKey);
    if (entry === undefined) {
      const record = emptyRecord(key);
      record.last = this.#context.log.floor;
      return { key, jsonKey, entry, record };
    }
    const parsed = this.#parsed.get(jsonKey);
    const record = parsed?.text === entry.text ? parsed.record : this.#parse(key, entry);
    return { key, jsonKey, entry, record };
  }

  #parse(key: string, { text }: Entry): KeyRecord {
    const record = parseRecord(text);
    if (record !== null && record.key === key) return record;
    throw damaged(this.#context.path, "its record cannot be read", key);
  }

  #keep(loaded: readonly Loaded[], changes: readonly LineChange[]): void {
    loaded.forEach(({ jsonKey, record }, i) => {
      if (this.#parsed.size >= PARSED_RECORDS && !this.#parsed.has(jsonKey)) this.#evict();
      this.#parsed.set(jsonKey, { text: (changes[i] as LineChange).text, record });
    });
  }

  #evict(): void {
    for (const jsonKey of this.#parsed.keys()) {
      this.#parsed.delete(jsonKey);
      return;
    }
  }

  /** Records that were changed in memory only. */
  #forget(keys: readonly string[]): void {
    for (const key of keys) this.#parsed.delete(JSON.stringify(key));
  }

  #ledger(records: ReadonlyMap<string, KeyRecord>): Ledger {
    const { system, self } = this.#context;
    return new Ledger({
      nowMs: micros(system.monoMs()),
      wallUs: system.wallMs() * 1_000,
      self,
      claimMs: CLAIM_MS,
      alive: (process) => this.#context.isAlive(process),
      record: (key) => records.get(key) ?? null,
    });
  }
}

/** All keys of the step, or null if none changed: of several keys the unchanged ones were relied on too. */
function changesOf(loaded: readonly Loaded[]): readonly LineChange[] | null {
  let isChanged = false;
  const changes = loaded.map(({ jsonKey, entry, record }) => {
    const text = JSON.stringify(record);
    if (text !== entry?.text && !(entry === undefined && isIdle(record))) isChanged = true;
    return { version: entry?.version ?? 0, key: jsonKey, text };
  });
  return isChanged ? changes : null;
}

/** The last fence of a record that nobody needs after this time. Null if it is in use, or damaged. */
export function lastFenceIfOver(text: string, timeMs: number): number | null {
  const record = parseRecord(text);
  if (record === null) return null;
  if (record.holders.some((row) => Math.max(row.until, row.keepUntil) > timeMs)) return null;
  if (record.line.some((row) => timeMs - row.seen <= FORGOTTEN_MS)) return null;
  return record.holders.reduce((last, row) => Math.max(last, row.fence + row.room), record.last);
}

function parseRecord(text: string): KeyRecord | null {
  try {
    const record = JSON.parse(text) as KeyRecord;
    return isRecord(record) ? record : null;
  } catch {
    return null;
  }
}

/** Microseconds are exact enough, and shorter to write. */
function micros(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

// One atomic step over the records of one or several keys: decide by the rules (shared/ledger.ts), append
// the new records, and check whether the line counts (log.ts). If it does not, start again with the newer
// records. All of this is synchronous.

import type { Io } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { Ledger, type Wake } from "../shared/ledger.ts";
import { emptyRecord, isIdle, type KeyRecord } from "../shared/record.ts";
import { isRecord } from "../shared/record-validation.ts";
import { closedError, damaged, fileError } from "./errors.ts";
import { CLAIM_MS } from "./guarantees.ts";
import type { Log } from "./log.ts";
import type { Entry } from "./log-format.ts";

/** After this many tries, other work of this process runs. */
const TRIES = 64;
/** With more keys than this in the log, records are parsed again when they are used. */
const PARSED_RECORDS = 4_096;
/** The text of a key that is not in the log. */
const NO_RECORD = "";
/** A waiter without a heartbeat for this long has left. The next log does not contain its record. */
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

interface StepEntry extends Entry {
  record: KeyRecord;
}

export class AtomicStep {
  readonly #context: StepContext;
  #isStopped = false;

  constructor(context: StepContext) {
    this.#context = context;
  }

  /** Steps that are still trying reject. */
  stop(): void {
    this.#isStopped = true;
  }

  /** `frees`: the step renews or releases, so on a full disk it may use the space of the spare file. */
  run<T>(keys: readonly string[], frees: boolean, io: Io, decide: Decide<T>): T | Promise<T> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const done = this.#try(keys, frees, tries > 0, decide);
      if (done !== null) return done.answer;
    }
    return io.sleep(0).then(() => this.run(keys, frees, io, decide));
  }

  /** Runs `decide` on copies of the newest records. Its changes are dropped. */
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
    const recordOf = (key: string): KeyRecord | null => records.get(key) ?? null;
    return decide(this.#ledger(recordOf), recordOf as (key: string) => KeyRecord);
  }

  /** Null if another process changed a record first. `isRetry`: the log was read to its end just before. */
  #try<T>(
    keys: readonly string[],
    frees: boolean,
    isRetry: boolean,
    decide: Decide<T>,
  ): { readonly answer: T } | null {
    const { log, system, path } = this.#context;
    if (this.#isStopped) throw closedError(keys[0]);
    try {
      // A decision over outdated records is harmless, because the log does not count it. If the records
      // of all keys are parsed, read nothing first: the append reads the newer lines.
      const jsonKeys = keys.map(toJson);
      const isFresh = isRetry || !jsonKeys.every((jsonKey) => log.get(jsonKey)?.record);
      if (isFresh && !isRetry) log.refresh();
      const changes = keys.map((key, i) => this.#load(key, jsonKeys[i] as string));
      const recordOf = recordFinder(changes);
      const ledger = this.#ledger(recordOf);
      const answer = decide(ledger, recordOf as (key: string) => KeyRecord);
      if (!takeChanges(changes)) {
        if (isFresh) return { answer };
        // Without an append nothing has shown that the records are the newest: read, and decide again.
        log.refresh();
        return null;
      }
      if (!log.append(changes, micros(system.monoMs()), frees)) {
        this.#forget(keys);
        return null;
      }
      if (log.size > PARSED_RECORDS) this.#forget(keys);
      for (const wake of ledger.wakes) this.#context.notify(wake);
      return { answer };
    } catch (error) {
      this.#forget(keys);
      throw fileError(error, "change", path, keys[0]);
    }
  }

  /** The entry for the step to write. The step may change its record in place. */
  #load(key: string, jsonKey: string): StepEntry {
    const entry = this.#context.log.get(jsonKey);
    if (entry !== undefined) {
      const { version, text } = entry;
      return { key: jsonKey, version, text, record: entry.record ?? this.#parse(key, entry) };
    }
    const record = emptyRecord(key);
    record.last = this.#context.log.floor;
    return { key: jsonKey, version: 0, text: NO_RECORD, record };
  }

  #parse(key: string, { text }: Entry): KeyRecord {
    const record = parseRecord(text);
    if (record !== null && record.key === key) return record;
    throw damaged(this.#context.path, "its record cannot be read", key);
  }

  /** Drops parsed records, because they were changed only in memory or because there are too many. */
  #forget(keys: readonly string[]): void {
    for (const key of keys) {
      const entry = this.#context.log.get(JSON.stringify(key));
      if (entry !== undefined) entry.record = null;
    }
  }

  #ledger(record: (key: string) => KeyRecord | null): Ledger {
    const { system, self } = this.#context;
    return new Ledger({
      nowMs: micros(system.monoMs()),
      wallUs: system.wallMs() * 1_000,
      self,
      claimMs: CLAIM_MS,
      alive: (process) => this.#context.isAlive(process),
      record,
    });
  }
}

function toJson(key: string): string {
  return JSON.stringify(key);
}

/** Most steps have one key, for which a Map would cost more than the search. */
function recordFinder(changes: readonly StepEntry[]): (key: string) => KeyRecord | null {
  const [first] = changes;
  if (first !== undefined && changes.length === 1)
    return (key) => (key === first.record.key ? first.record : null);
  const records = new Map(changes.map(({ record }) => [record.key, record]));
  return (key) => records.get(key) ?? null;
}

/**
 * Writes the records into the entries, and returns whether one of them changed. The step then appends all of
 * them, because the decision also depends on the unchanged ones.
 */
function takeChanges(changes: readonly StepEntry[]): boolean {
  let isChanged = false;
  for (const change of changes) {
    const text = JSON.stringify(change.record);
    const isNewAndIdle = change.text === NO_RECORD && isIdle(change.record);
    if (text !== change.text && !isNewAndIdle) isChanged = true;
    change.text = text;
  }
  return isChanged;
}

/**
 * The last fence of a record without live holders or waiters at this time. Null if it has some or is
 * damaged.
 */
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

/** Rounds to µs, so that the text of a record is short. */
function micros(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

// One atomic step over the records of one or several keys: latch, read, decide, write, unlatch. All of it is synchronous,
// so a latch is never kept over a turn of the event loop, and nothing here waits for another process inside the kernel.
//
// When a latch is busy:
// 1. let go of all latches of this step, and try a few times in a row: a step takes about 10 us, and a process that takes
//    and frees the same key without a pause leaves only gaps;
// 2. then let other work of this process go first, then sleep (core's patience, no timer here), a few tries each time. The
//    pauses grow only when it has taken so long that the other process must be stopped and not merely busy;
//    Meanwhile a second lock says that somebody waits, and whoever takes the latch often looks for it and steps back;
// 3. before the call has become worthless give up, and name the process that is inside.

import type { Io } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { Ledger, type Wake } from "../shared/ledger.ts";
import { emptyRecord, type KeyRecord } from "../shared/record.ts";
import { culprit } from "./culprit.ts";
import { closedError, fileError, latchStuck } from "./errors.ts";
import type { Floor } from "./floor.ts";
import { CLAIM_MS } from "./guarantees.ts";
import type { KeyFile } from "./key-file.ts";
import type { KeyFiles } from "./key-files.ts";
import type { Peers } from "./peers.ts";

const TRIES = 8;
const YIELDS = 8;
const SHORT_PAUSES = 40;
const LONGEST_PAUSE_MS = 16;
/** The error must arrive while somebody still listens. */
const PATIENCE_SHARE = 0.75;

export type Decide<T> = (ledger: Ledger, record: (key: string) => KeyRecord) => T;

interface StepsParts {
  readonly system: System;
  readonly files: KeyFiles;
  readonly floor: Floor;
  readonly peers: Peers;
  readonly self: string;
  deliver(wake: Wake): void;
  /** Told after a step that made new files. */
  made(count: number): void;
}

class Busy {
  readonly key: string;
  constructor(key: string) {
    this.key = key;
  }
}

export class Steps {
  readonly #parts: StepsParts;
  #stopped = false;

  constructor(parts: StepsParts) {
    this.#parts = parts;
  }

  /** A step that is still waiting for a latch ends with an error and opens nothing any more. */
  stop(): void {
    this.#stopped = true;
  }

  /** `make`: a key without a file gets one; otherwise it counts as an empty record that nobody may change. */
  run<T>(keys: readonly string[], make: boolean, io: Io, decide: Decide<T>): Promise<T> {
    try {
      if (make && this.#crowded(keys)) return this.#afterOthers(keys, io, decide);
      const done = this.#try(keys, make, decide);
      if (!(done instanceof Busy)) return Promise.resolve(done);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#insist(keys, make, io, decide);
  }

  /** Decides over copies of the records, without latches and without effect. */
  look<T>(keys: readonly string[], decide: Decide<T>): T {
    const records = new Map<string, KeyRecord>();
    for (const key of keys) {
      try {
        records.set(key, this.#parts.files.snapshot(key) ?? emptyRecord(key));
      } catch (error) {
        throw fileError(error, "read", this.#parts.files.path(key), key);
      }
    }
    this.#parts.files.trim();
    return decide(this.ledger(records), (key) => records.get(key) as KeyRecord);
  }

  ledger(records: ReadonlyMap<string, KeyRecord>): Ledger {
    const { system, self, peers } = this.#parts;
    return new Ledger({
      nowMs: micros(system.monoMs()),
      wallUs: system.wallMs() * 1_000,
      self,
      claimMs: CLAIM_MS,
      alive: (proc) => peers.alive(proc),
      record: (key) => records.get(key) ?? null,
    });
  }

  /** Only those who ask for more step back: a release is what the others wait for. */
  #crowded(keys: readonly string[]): boolean {
    return keys.some((key) => this.#parts.files.known(key)?.crowded());
  }

  async #afterOthers<T>(keys: readonly string[], io: Io, decide: Decide<T>): Promise<T> {
    await io.sleep(1);
    return this.#insist(keys, true, io, decide);
  }

  async #insist<T>(keys: readonly string[], make: boolean, io: Io, decide: Decide<T>): Promise<T> {
    const { files } = this.#parts;
    try {
      return await this.#rounds(keys, make, io, decide);
    } finally {
      for (const key of keys) files.known(key)?.slots.unwant();
    }
  }

  async #rounds<T>(keys: readonly string[], make: boolean, io: Io, decide: Decide<T>): Promise<T> {
    const { system, files } = this.#parts;
    const startMs = system.monoMs();
    for (let round = 0; ; round += 1) {
      if (round > 0) await io.sleep(pauseMs(round));
      if (io.signal.aborted) throw new StoreUnavailableError("the call was given up", { key: keys[0] });
      let done: T | Busy = this.#try(keys, make, decide);
      for (let left = TRIES; done instanceof Busy && left > 0; left -= 1)
        done = this.#try(keys, make, decide);
      if (!(done instanceof Busy)) return done;
      files.known(done.key)?.slots.want();
      const waitedMs = system.monoMs() - startMs;
      if (waitedMs < io.timeoutMs * PATIENCE_SHARE) continue;
      const path = files.path(done.key);
      throw latchStuck(done.key, path, waitedMs, await culprit(path));
    }
  }

  #try<T>(keys: readonly string[], make: boolean, decide: Decide<T>): T | Busy {
    if (this.#stopped) throw closedError(keys[0]);
    const { files, system } = this.#parts;
    const nowMs = system.monoMs();
    const latched: KeyFile[] = [];
    const records = new Map<string, KeyRecord>();
    let ledger: Ledger;
    let answer: T;
    try {
      for (const key of keys) {
        const file = files.latched(key, make, nowMs);
        if (file === "busy") return new Busy(key);
        if (file !== null) latched.push(file);
        records.set(key, file === null ? emptyRecord(key) : this.#load(file));
      }
      ledger = this.ledger(records);
      answer = decide(ledger, (key) => records.get(key) as KeyRecord);
      saveAll(latched);
    } catch (error) {
      for (const file of latched) file.forget();
      throw fileError(error, "change", latched[0]?.slots.path ?? files.path(keys[0] as string), keys[0]);
    } finally {
      for (const file of latched) file.slots.unlatch();
      const made = files.trim();
      if (made > 0) this.#parts.made(made);
    }
    for (const wake of ledger.wakes) this.#parts.deliver(wake);
    return answer;
  }

  #load(file: KeyFile): KeyRecord {
    const record = file.load();
    if (record.last === 0) record.last = this.#parts.floor.value();
    return record;
  }
}

/** All or none (P9): what was written before a failure is put back. A kill half-way leaves a dead holder, which is swept. */
function saveAll(files: readonly KeyFile[]): void {
  const before = files.map((file) => file.saved);
  const written: number[] = [];
  try {
    files.forEach((file, i) => {
      if (file.save()) written.push(i);
    });
  } catch (error) {
    for (const i of written) (files[i] as KeyFile).restore(before[i] as string);
    throw error;
  }
}

function pauseMs(round: number): number {
  if (round <= YIELDS) return 0;
  return Math.min(LONGEST_PAUSE_MS, Math.max(1, round - YIELDS - SHORT_PAUSES));
}

/** Microseconds are enough, and shorter to write. */
function micros(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

// One step over rows of the lease table: read them with the server's time, let the rules decide, write only if nothing has
// changed meanwhile, else look again. The patience for looking again is the caller's.

import { createHash } from "node:crypto";
import { StoreUnavailableError } from "../../core/errors.ts";
import type { Io } from "../../core/store.ts";
import { showKey } from "../../core/key.ts";
import type { System } from "../../core/system.ts";
import { Ledger } from "./ledger.ts";
import { type Pushes, sayWake } from "./pushes.ts";
import { damagedRow } from "./record-shape.ts";
import type { Change, Push, Reading, RowName, Table } from "./table.ts";
import { type Kept, keptOf, overlay, stateOf } from "./table-record.ts";

/** Between two looks, so that many who want the same row do not meet again and again. */
const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 16;
/** For so long a step lets one of the same process go first, which would only make it look again. */
const AFTER_YOU_MS = 20;
const NAMES_REMEMBERED = 1_024;

export interface Step {
  readonly ledger: Ledger;
  readonly kept: readonly Kept[];
  readonly nowMs: number;
}

/** What a step came to, and whether the rows may be written for it. */
export interface Decision<T> {
  readonly answer: T;
  readonly writes: boolean;
}

export interface StepWish<T> {
  readonly keys: readonly string[];
  /** A waiter that is to be seen in this step. */
  readonly beat: { readonly id: string; readonly seq: number } | null;
  /** Called anew for every look. */
  decide(step: Step): Decision<T>;
}

export class TableSteps {
  readonly #table: Table;
  readonly #system: System;
  readonly #namespace: string;
  readonly #proc: string;
  readonly #claimMs: number;
  readonly #pushes: Pushes;
  readonly #names = new Map<string, RowName>();
  /** The last step that is under way, by the first of its keys. */
  readonly #under = new Map<string, Promise<void>>();

  constructor(
    table: Table,
    pushes: Pushes,
    who: { system: System; namespace: string; proc: string; claimMs: number },
  ) {
    this.#table = table;
    this.#pushes = pushes;
    this.#system = who.system;
    this.#namespace = who.namespace;
    this.#proc = who.proc;
    this.#claimMs = who.claimMs;
  }

  /** A digest, because no database has room for every key in an index. The latest are remembered: who takes a key lets it go, too. */
  name(key: string): RowName {
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = { digest: createHash("sha256").update(`${this.#namespace}\0${key}`).digest(), key };
    if (this.#names.size >= NAMES_REMEMBERED) this.#names.clear();
    this.#names.set(key, name);
    return name;
  }

  run<T>(wish: StepWish<T>, io: Io): Promise<T> {
    const key = wish.keys[0] as string;
    const before = this.#under.get(key);
    const running =
      before === undefined
        ? this.#run(wish, io)
        : Promise.race([before, io.sleep(AFTER_YOU_MS)]).then(() => this.#run(wish, io));
    const done = running.then(
      () => {},
      () => {},
    );
    this.#under.set(key, done);
    void done.then(() => this.#under.get(key) === done && this.#under.delete(key));
    return running;
  }

  async #run<T>(wish: StepWish<T>, io: Io): Promise<T> {
    const names = wish.keys.map((key) => this.name(key));
    for (let looks = 1; ; looks += 1) {
      const outcome = await this.#once(names, wish, io).catch((error: unknown) => {
        if (this.#table.undone(error)) return null;
        throw error;
      });
      if (outcome !== null) return outcome.answer;
      if (io.signal.aborted) throw crowded(wish.keys[0] as string, looks);
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (looks - 1));
      await io.sleep(pauseMs * this.#system.random());
    }
  }

  /** null when somebody else was quicker. */
  async #once<T>(names: readonly RowName[], wish: StepWish<T>, io: Io): Promise<{ answer: T } | null> {
    const reading = await this.#table.read(names, wish.beat, io).catch((error: unknown) => {
      // The statement has no values but names, so it is a row that the server cannot read.
      throw this.#table.isDataError(error) ? damagedRow(wish.keys[0] as string, error) : error;
    });
    const nowMs = reading.nowUs / 1_000;
    const kept = names.map(({ key }, at) => this.#kept(key, at, reading, wish.beat));
    const before = kept.map((one) => this.#image(one, nowMs));
    const lines = kept.map(({ record }) => record.line.map((row) => row.id));
    const ledger = this.ledger(kept, reading.nowUs, reading.mayGrant);
    const { answer, writes } = wish.decide({ ledger, kept, nowMs });
    const changed = kept.some((one, at) => this.#image(one, nowMs) !== before[at]);
    if (!writes || !changed) return { answer };
    if (names.length > 1 && reading.rows.includes(null)) {
      await this.#table.seed(
        names.filter((_name, at) => reading.rows[at] === null),
        io,
      );
      return null;
    }
    const changes = names.map((name, at): Change => {
      const one = kept[at] as Kept;
      const inLine = new Set(one.record.line.map((row) => row.id));
      return {
        name,
        version: reading.rows[at]?.version ?? 0,
        state: stateOf(one, nowMs, this.#plain),
        left: (lines[at] as string[]).filter((id) => !inLine.has(id)),
      };
    });
    if (!(await this.#table.swap(changes, this.#others(ledger), io))) return null;
    for (const wake of ledger.wakes) if (wake.proc === this.#proc) this.#pushes.hear(sayWake(wake));
    return { answer };
  }

  ledger(kept: readonly Kept[], nowUs: number, mayGrant?: boolean): Ledger {
    const records = new Map(kept.map(({ record }) => [record.key, record]));
    return new Ledger({
      nowMs: nowUs / 1_000,
      wallUs: nowUs,
      self: this.#proc,
      claimMs: this.#claimMs,
      alive: () => true,
      mayGrant,
      record: (key) => records.get(key) ?? null,
    });
  }

  #kept(key: string, at: number, reading: Reading, beat: StepWish<unknown>["beat"]): Kept {
    const kept = keptOf(key, reading.rows[at] ?? null, reading.floor, reading.beats[at] ?? []);
    if (beat !== null) overlay(kept.record.line, { ...beat, seenMs: reading.nowUs / 1_000 });
    return kept;
  }

  readonly #plain = (text: string): boolean => this.#table.plain(text);

  /** Everything that a write would keep, to tell whether there is anything to write. */
  #image(kept: Kept, nowMs: number): string {
    return JSON.stringify({ ...stateOf(kept, nowMs, this.#plain), limit: kept.record.limit });
  }

  #others(ledger: Ledger): Push[] {
    return ledger.wakes
      .filter((wake) => wake.proc !== this.#proc)
      .map((wake) => ({ proc: wake.proc, words: sayWake(wake) }));
  }
}

function crowded(key: string, looks: number): StoreUnavailableError {
  return new StoreUnavailableError(
    `the row of ${showKey(key)} was changed by others each of ${looks} times that it was looked at`,
    { key },
  );
}

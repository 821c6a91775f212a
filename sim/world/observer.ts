// What a server's records say, written into the history whenever it has changed: who is gone, then who holds, then who waits.

import { claimFor } from "../../src/stores/shared/rows.ts";
import type { HolderRow, KeyRecord } from "../../src/stores/shared/record.ts";
import type { HistoryEvent } from "../history.ts";
import type { Timeline } from "./timeline.ts";

interface Place {
  readonly key: string;
  readonly id: string;
  readonly seen: number;
  readonly ttlMs: number;
  readonly several: boolean;
}

interface Holding {
  readonly key: string;
  readonly row: HolderRow;
  readonly until: number;
}

/** The server's own clock. */
export interface ServerClock {
  nowMs(): number;
  readonly rate: number;
}

export class Observer {
  readonly #timeline: Timeline;
  readonly #clock: ServerClock;
  readonly #claimMs: number;
  readonly #record: (event: HistoryEvent) => void;
  #holders = new Map<string, Holding>();
  #line = new Map<string, Place>();

  constructor(
    timeline: Timeline,
    clock: ServerClock,
    claimMs: number,
    record: (event: HistoryEvent) => void,
  ) {
    this.#timeline = timeline;
    this.#clock = clock;
    this.#claimMs = claimMs;
    this.#record = record;
  }

  observe(records: Iterable<KeyRecord>): void {
    const at = this.#timeline.now;
    const holders = new Map<string, Holding>();
    const line = new Map<string, Place>();
    for (const { key, holders: rows, line: places } of records) {
      for (const { id, seen, ttlMs, keys } of places) {
        line.set(`${key}\0${id}`, { key, id, seen, ttlMs, several: keys !== undefined });
      }
      for (const row of rows)
        if (row.id !== "") holders.set(`${key}\0${row.id}`, { key, row, until: row.until });
    }
    for (const [name, { key, row }] of this.#holders) {
      if (!holders.has(name)) this.#record({ type: "store-free", at, key, id: row.id });
    }
    for (const [name, { key, id }] of this.#line) {
      if (!line.has(name) && !holders.has(name)) this.#record({ type: "store-unseated", at, key, id });
    }
    for (const [name, holding] of holders) this.#observeHolder(name, holding, at);
    for (const [name, place] of line) this.#observePlace(name, place, at);
    this.#holders = holders;
    this.#line = line;
  }

  #observeHolder(name: string, { key, row, until }: Holding, at: number): void {
    if (this.#holders.get(name)?.until === until) return;
    const { id, room } = row;
    const trueUntil = at + (until - this.#clock.nowMs()) / this.#clock.rate;
    this.#record({ type: "store-holds", at, key, id, fence: String(row.fence), room, until: trueUntil });
  }

  #observePlace(name: string, { key, id, seen, ttlMs, several }: Place, at: number): void {
    const before = this.#line.get(name);
    const claimMs = claimFor(this.#claimMs, ttlMs);
    if (before === undefined) this.#record({ type: "store-seated", at, key, id, claimMs, several });
    else if (before.seen !== seen) this.#record({ type: "store-beat", at, key, id });
  }
}

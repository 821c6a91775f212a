// A simulated server: the reference store's own server on a clock of its own, behind a network, with everything it decides
// written into the history. It can freeze, restart with or without its data, and have its clock set.

import { MemoryServer, type Step } from "../../src/stores/memory/server.ts";
import { CLAIM_MS } from "../../src/stores/memory/guarantees.ts";
import { claimFor } from "../../src/stores/shared/rows.ts";
import type { HolderRow } from "../../src/stores/shared/record.ts";
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

export class SimServer {
  readonly name = "server";
  readonly #timeline: Timeline;
  readonly #rate: number;
  readonly #record: (event: HistoryEvent) => void;
  #server: MemoryServer;
  #jumpMs = 0;
  #frozen: (() => void)[] | null = null;
  #down = false;
  /** What the history knows. */
  #holders = new Map<string, Holding>();
  #line = new Map<string, Place>();

  constructor(timeline: Timeline, rate: number, record: (event: HistoryEvent) => void) {
    this.#timeline = timeline;
    this.#rate = rate;
    this.#record = record;
    this.#server = this.#start();
  }

  get rate(): number {
    return this.#rate;
  }

  /** A request arrives. `answer` gets what goes back, unless the server is down. */
  arrives<T>(decide: (server: MemoryServer) => Step<T>, answer: (step: Step<T>) => void): void {
    if (this.#down) return;
    if (this.#frozen !== null) {
      this.#frozen.push(() => this.arrives(decide, answer));
      return;
    }
    const step = decide(this.#server);
    this.#observe();
    answer(step);
  }

  freeze(ms: number): void {
    this.#frozen ??= [];
    this.#timeline.after(ms, () => this.thaw());
  }

  thaw(): void {
    const waiting = this.#frozen ?? [];
    this.#frozen = null;
    for (const fn of waiting) fn();
  }

  restart(ms: number, forget: boolean): void {
    if (this.#down) return;
    this.#down = true;
    this.#frozen = null;
    this.#timeline.after(ms, () => {
      this.#down = false;
      if (forget) this.#server = this.#start();
      this.#observe();
    });
  }

  jump(ms: number): void {
    this.#jumpMs += ms;
  }

  /** What is still there, in words; empty when the place is clean. */
  leftovers(): string[] {
    return [...this.#server.records.values()].flatMap((record) => [
      ...record.holders.map(
        (row) => `${record.key} is held by ${row.label} until ${row.until - this.#mono()} ms from now`,
      ),
      ...record.line.map((row) => `${row.label} stands in the line of ${record.key}`),
    ]);
  }

  #mono(): number {
    return 5_000_000 + this.#timeline.now * this.#rate + this.#jumpMs;
  }

  #start(): MemoryServer {
    return new MemoryServer({
      monoMs: () => this.#mono(),
      wallMs: () => 1_700_000_000_000 + this.#timeline.now * this.#rate + this.#jumpMs,
      alive: () => true,
    });
  }

  /** Writes down what has changed since the last look: who is gone, then who holds, then who waits. */
  #observe(): void {
    const at = this.#timeline.now;
    const holders = new Map<string, Holding>();
    const line = new Map<string, Place>();
    for (const { key, holders: rows, line: places } of this.#server.records.values()) {
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
    const trueUntil = at + (until - this.#mono()) / this.#rate;
    this.#record({ type: "store-holds", at, key, id, fence: String(row.fence), room, until: trueUntil });
  }

  #observePlace(name: string, { key, id, seen, ttlMs, several }: Place, at: number): void {
    const before = this.#line.get(name);
    const claimMs = claimFor(CLAIM_MS, ttlMs);
    if (before === undefined) this.#record({ type: "store-seated", at, key, id, claimMs, several });
    else if (before.seen !== seen) this.#record({ type: "store-beat", at, key, id });
  }
}

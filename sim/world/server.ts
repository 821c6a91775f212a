// A simulated server: the reference store's own server on a clock of its own, behind a network, with everything it decides
// written into the history. It can freeze, restart with or without its data, and have its clock set.

import { MemoryServer, type Step } from "../../src/stores/memory/server.ts";
import { CLAIM_MS } from "../../src/stores/memory/guarantees.ts";
import type { HistoryEvent } from "../history.ts";
import { Observer } from "./observer.ts";
import type { Timeline } from "./timeline.ts";

export class SimServer {
  readonly name = "server";
  readonly #timeline: Timeline;
  readonly #rate: number;
  readonly #observer: Observer;
  #server: MemoryServer;
  #jumpMs = 0;
  #frozen: (() => void)[] | null = null;
  #down = false;

  constructor(timeline: Timeline, rate: number, record: (event: HistoryEvent) => void) {
    this.#timeline = timeline;
    this.#rate = rate;
    this.#observer = new Observer(timeline, { nowMs: () => this.#mono(), rate }, CLAIM_MS, record);
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

  #observe(): void {
    this.#observer.observe(this.#server.records.values());
  }
}

// Links that lose, delay, repeat and cut, one way or both.

import type { Random } from "./random.ts";
import type { Timeline } from "./timeline.ts";

export interface NetworkSettings {
  readonly minDelayMs: number;
  readonly maxDelayMs: number;
  readonly loss: number;
  readonly duplication: number;
}

export class Network {
  /** When each sender sent its messages. */
  readonly sentAt = new Map<string, number[]>();
  readonly #timeline: Timeline;
  readonly #random: Random;
  #settings: NetworkSettings;
  readonly #cut = new Map<string, number>();

  constructor(timeline: Timeline, random: Random, settings: NetworkSettings) {
    this.#timeline = timeline;
    this.#random = random;
    this.#settings = settings;
  }

  /** Delivers none, one or two copies. `extraMs` delays this message more than others. */
  send(from: string, to: string, deliver: () => void, extraMs = 0): void {
    const sent = this.sentAt.get(from) ?? [];
    if (sent.push(this.#timeline.now) === 1) this.sentAt.set(from, sent);
    const { minDelayMs, maxDelayMs, loss, duplication } = this.#settings;
    const copies = this.#random.chance(loss) ? 0 : this.#random.chance(duplication) ? 2 : 1;
    for (let i = 0; i < copies; i += 1) {
      const delay = this.#random.between(minDelayMs, maxDelayMs) * (i + 1) + extraMs;
      this.#timeline.after(delay, () => {
        if ((this.#cut.get(`${from}>${to}`) ?? 0) === 0) deliver();
      });
    }
  }

  /** Cuts one direction for `ms`. */
  cut(from: string, to: string, ms: number): void {
    const link = `${from}>${to}`;
    this.#cut.set(link, (this.#cut.get(link) ?? 0) + 1);
    this.#timeline.after(ms, () => this.#cut.set(link, Math.max(0, (this.#cut.get(link) ?? 1) - 1)));
  }

  heal(): void {
    this.#cut.clear();
    this.#settings = { minDelayMs: 0.2, maxDelayMs: 2, loss: 0, duplication: 0 };
  }
}

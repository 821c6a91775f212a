// Notices when the event loop of this client stood still, whoever was to blame, and writes it down: a loss that is told
// late because its process did not run is no broken promise (P7), and the longest delay is a figure of its own.

import { type Journal, nowMs } from "../journal.ts";

const EVERY_MS = 5;
/** Shorter ones are written down only when they are this client's longest so far. */
const STALL_MS = 15;

export class LoopWatch {
  readonly #timer: NodeJS.Timeout;
  #lastMs = nowMs();
  #longestMs = 0;

  /** `tick` runs in every turn of the watch. */
  constructor(name: string, journal: Journal, tick: () => void) {
    this.#timer = setInterval(() => {
      const from = this.#lastMs;
      const untilMs = nowMs();
      this.#lastMs = untilMs;
      const lateMs = untilMs - from - EVERY_MS;
      tick();
      if (lateMs < STALL_MS && lateMs <= this.#longestMs) return;
      this.#longestMs = Math.max(lateMs, this.#longestMs);
      journal.write({ type: "stall", at: from, client: name, untilMs });
    }, EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

// Notices when the event loop of this process stood still, whoever was to blame, and writes it down before anything else: a
// loss that is told late because its process did not run is no broken promise (P7), and the longest delay is a figure of
// its own. It must never call a process stopped that could have run.

import { type Journal, nowMs } from "./journal.ts";

const EVERY_MS = 5;
/** Shorter ones are written down only when they are this process's longest so far. */
const STALL_MS = 15;

export class LoopWatch {
  readonly #name: string;
  readonly #journal: Journal;
  readonly #timer: NodeJS.Timeout;
  #lastMs = nowMs();
  #longestMs = 0;

  /** `tick` runs in every turn of the watch. */
  constructor(name: string, journal: Journal, tick: () => void) {
    this.#name = name;
    this.#journal = journal;
    // Whoever is killed right after a stall has at least written down the stall.
    journal.before = () => this.#look(STALL_MS);
    this.#timer = setInterval(() => {
      // Not the time after the look: a process may be stopped while it writes, and that is a stall as well.
      this.#lastMs = this.#look(Math.min(STALL_MS, this.#longestMs));
      tick();
    }, EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#journal.before = () => {};
  }

  /** Between two turns the time goes on, so only what is longer than a turn counts. Answers when it looked. */
  #look(leastMs: number): number {
    const from = this.#lastMs;
    const untilMs = nowMs();
    const lateMs = untilMs - from - EVERY_MS;
    if (lateMs <= leastMs) return untilMs;
    this.#longestMs = Math.max(lateMs, this.#longestMs);
    this.#lastMs = untilMs;
    this.#journal.write({ type: "stall", at: from, client: this.#name, untilMs });
    return untilMs;
  }
}

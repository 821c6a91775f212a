// Ids that were released or abandoned, remembered for a while so that an attempt which arrives late changes nothing (P8).

const REMEMBER_MS = 60_000;
/** Checked only when so many have gathered, so that a hot key does not pay for it. */
const SWEEP_EVERY = 1_024;

export class EndedIds {
  readonly #endedAt = new Map<string, number>();
  #untilSweep = SWEEP_EVERY;

  add(id: string, nowMs: number): void {
    this.#endedAt.set(id, nowMs);
    this.#untilSweep -= 1;
    if (this.#untilSweep > 0) return;
    this.#untilSweep = SWEEP_EVERY;
    // A Map keeps the order of insertion: the oldest come first.
    for (const [old, endedAt] of this.#endedAt) {
      if (nowMs - endedAt <= REMEMBER_MS) return;
      this.#endedAt.delete(old);
    }
  }

  has(id: string): boolean {
    return this.#endedAt.has(id);
  }
}

// The clock of a server as this process sees it. A reading says what the server's calendar showed at some
// moment between the send of a question and the arrival of its answer, so the difference between the two
// clocks lies between two bounds. Where the bounds of two readings are further apart than the clocks can have
// drifted, one of the clocks was set in between.

export interface ServerReading {
  /** The calendar of the server, in ms. */
  readonly serverMs: number;
  /** Clocks of this machine that are never set, when the question left and when the answer arrived. */
  readonly sentMs: number;
  readonly receivedMs: number;
}

/** Clocks that nobody sets or slews beyond what NTP does as a rule run apart by less than this. */
const DRIFT = 0.0005;

export class ServerClock {
  #lowMs = Number.NEGATIVE_INFINITY;
  #highMs = Number.POSITIVE_INFINITY;
  #readMs = 0;

  /** By how much the server's clock has certainly moved since the last reading; 0 within `toleranceMs`. */
  movedMs({ serverMs, sentMs, receivedMs }: ServerReading, toleranceMs: number): number {
    const driftMs = this.#driftMs(receivedMs);
    const forwardMs = serverMs - receivedMs - this.#highMs - driftMs;
    if (forwardMs > toleranceMs) return forwardMs;
    const backMs = this.#lowMs - driftMs - (serverMs - sentMs);
    return backMs > toleranceMs ? -backMs : 0;
  }

  /** What is known becomes more exact; where the clock has moved, it starts from this reading. */
  take({ serverMs, sentMs, receivedMs }: ServerReading): void {
    const driftMs = this.#driftMs(receivedMs);
    const [low, high] = [serverMs - receivedMs, serverMs - sentMs];
    const lowMs = Math.max(low, this.#lowMs - driftMs);
    const highMs = Math.min(high, this.#highMs + driftMs);
    const fits = lowMs <= highMs;
    this.#lowMs = fits ? lowMs : low;
    this.#highMs = fits ? highMs : high;
    this.#readMs = receivedMs;
  }

  #driftMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#readMs) * DRIFT;
  }
}

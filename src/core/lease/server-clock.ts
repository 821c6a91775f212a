// Detects jumps of a server's clock. The server has read its wall clock at some time between the send of
// a call and the arrival of its answer, so each reading gives two bounds for the difference to our clock.
// If the bounds of two readings are further apart than the clocks can drift, one of the clocks was set in
// between.

export interface ServerReading {
  /** The wall clock of the server, in ms. */
  readonly serverMs: number;
  /** The boot clock of this machine at the send of the call and at the arrival of the answer. */
  readonly sentMs: number;
  readonly receivedMs: number;
}

/** The drift of two clocks under normal NTP corrections is less than this. */
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

  /** Narrows the bounds with a reading. After a jump, starts from this reading. */
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

// Finds pools whose connections are half open: the host is gone, a NAT has forgotten them, or the address has
// moved, and TCP reports it only after minutes. A pool may have many such connections, so one that does not
// answer makes the others suspect.
//
// 1. Two calls in a row without any answer on any connection of the pool make the pool silent.
// 2. From then on only connections that have answered since are used again. New ones work at once.
//
// connection-health.ts is the rule for one connection that all calls share.

/** A pool is silent after this many calls in a row without an answer. */
const MOST_UNANSWERED = 2;
/** A short ttl has short timeouts. A server that stalls for less than this must not lose its connections. */
const SHORTEST_SILENCE_MS = 500;

export class PoolHealth {
  readonly #nowMs: () => number;
  readonly #answeredAtMs = new WeakMap<object, number>();
  #heardAtMs = Number.NEGATIVE_INFINITY;
  #unanswered = 0;
  #unansweredSinceMs = 0;
  #silentAtMs = Number.NEGATIVE_INFINITY;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Reports that a connection was opened, or has answered, perhaps with an error. */
  answered(connection: object): void {
    const nowMs = this.#nowMs();
    this.#answeredAtMs.set(connection, nowMs);
    this.#heardAtMs = nowMs;
    this.#unanswered = 0;
  }

  /**
   * Reports that a call has timed out. Returns true if the pool is silent and must replace its
   * connections.
   */
  givenUp(sentAtMs: number): boolean {
    if (sentAtMs < this.#heardAtMs) return false;
    if (this.#unanswered === 0) this.#unansweredSinceMs = sentAtMs;
    this.#unanswered += 1;
    const nowMs = this.#nowMs();
    if (this.#unanswered < MOST_UNANSWERED) return false;
    if (nowMs - this.#unansweredSinceMs < SHORTEST_SILENCE_MS) return false;
    this.#unanswered = 0;
    this.#silentAtMs = nowMs;
    return true;
  }

  /** Whether a connection may be used. An unknown connection counts as new. */
  isUsable(connection: object): boolean {
    return (this.#answeredAtMs.get(connection) ?? this.#nowMs()) >= this.#silentAtMs;
  }
}

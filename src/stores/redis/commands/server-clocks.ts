// What the clocks of the servers show, estimated from their answers: every answer of a script carries the
// server's time. The estimate is an upper bound at the time of the answer, because the request was sent
// before the server read its clock.

export class ServerClocks {
  /** By the name of the server. One server has no name. */
  readonly #aheadMs = new Map<string, number>();
  /** The server that a key is on; null where there is one server. */
  readonly #nodeOf: ((key: string) => string) | null;

  constructor(nodeOf: ((key: string) => string) | null) {
    this.#nodeOf = nodeOf;
  }

  /** The server of `key` answered `serverMs` to what was sent at `sentMs` of our monotonic clock. */
  learn(key: string, serverMs: number, sentMs: number): void {
    this.#aheadMs.set(this.#nodeOf === null ? "" : this.#nodeOf(key), serverMs - sentMs);
  }

  /** The time of the server of `key` at `atMs` of our clock, rounded up; null while nothing is known. */
  at(key: string, atMs: number): number | null {
    const aheadMs = this.#aheadMs.get(this.#nodeOf === null ? "" : this.#nodeOf(key));
    return aheadMs === undefined ? null : Math.ceil(atMs + aheadMs);
  }
}

// What the clocks of the servers show, estimated from their answers: every answer of a script carries the
// server's time. The estimate is an upper bound at the time of the answer, because the request was sent
// before the server read its clock.

/** One server has no name. */
export class ServerClocks {
  readonly #aheadMs = new Map<string, number>();

  /** The server answered `serverMs` to what was sent at `sentMs` of this process' monotonic clock. */
  learn(node: string, serverMs: number, sentMs: number): void {
    this.#aheadMs.set(node, serverMs - sentMs);
  }

  /** The server's time at `atMs` of the monotonic clock, rounded up; null while nothing is known. */
  at(node: string, atMs: number): number | null {
    const aheadMs = this.#aheadMs.get(node);
    return aheadMs === undefined ? null : Math.ceil(atMs + aheadMs);
  }
}

// Proposals and ends as texts in columns, which scripts/batch.lua reads by position. One text serves all
// nodes, and a text is cheaper to send and to read than a dozen arguments.

import type { Request } from "../../core/store.ts";

const FENCE = 18;
const TIME = 14;
const ROOM = 12;

export class ProposalCodec {
  #ttlMs = -1;
  #graceMs = -1;
  #keepMs = -1;
  #room = -1;
  /** Of the last request: most have the same. */
  #times = "";
  #label = "";
  #labelLength = "0   ";

  /** `birth`: when the request first asked, by its own clock. */
  proposal(request: Request, fence: number, birth: number): string {
    const { id, queue, label, actor } = request;
    if (label !== this.#label) {
      this.#label = label;
      this.#labelLength = column(Buffer.byteLength(label), 4);
    }
    const numbers = column(fence, FENCE) + column(birth, FENCE) + this.#timesOf(request);
    return (queue ? "p1" : "p0") + numbers + column(id.length, 3) + this.#labelLength + id + label + actor;
  }

  /** Takes a proposal back. */
  withdrawal(proposal: string): string {
    return `w${proposal.slice(1)}`;
  }

  /**
   * `used`: the last fence that was used, or "" if that is unknown. `proposed`: the largest that was
   * proposed.
   */
  end(id: string, used: string, proposed: number): string {
    return `e${used.padEnd(FENCE)}${column(proposed, FENCE)}${id}`;
  }

  #timesOf({ ttlMs, graceMs, keepMs, reservedFences }: Request): string {
    const isSame = ttlMs === this.#ttlMs && graceMs === this.#graceMs && keepMs === this.#keepMs;
    if (isSame && reservedFences === this.#room) return this.#times;
    [this.#ttlMs, this.#graceMs, this.#keepMs, this.#room] = [ttlMs, graceMs, keepMs, reservedFences];
    // A node counts in whole ms, and begins with one that has partly passed.
    const holdMs = Math.ceil(ttlMs + graceMs) + 1;
    const keptMs = keepMs === 0 ? 0 : Math.ceil(keepMs) + 1;
    this.#times = column(holdMs, TIME) + column(keptMs, TIME) + column(reservedFences, ROOM);
    return this.#times;
  }
}

function column(number: number, width: number): string {
  return String(number).padEnd(width);
}

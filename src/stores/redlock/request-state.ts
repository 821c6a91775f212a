// What this process knows of its open requests beyond their options, and which ids have ended. A node rejects
// late proposals of an ended request by their fences. Here the rest of P8: an ended id is not proposed again.

import type { Request } from "../../core/store.ts";

export interface RequestState {
  /** When the request first asked, by its own clock, in us: the oldest request goes first. */
  readonly birth: number;
  /** The last proposal, if it may still be counted. */
  proposed: number | null;
  /** The largest fence that was proposed. */
  highest: number;
  /** The last number that a grant of the request may have used. */
  used: number;
  /** How many calls have asked for the request. Only the last one may count or withdraw anything. */
  calls: number;
}

/**
 * Core does not ask again with an id that has ended. So many, up to twice as many, are remembered for others.
 */
const ENDED_REMEMBERED = 2_048;

export class RequestStates {
  readonly #open = new Map<string, RequestState>();
  /** The largest proposal of each. Two generations: the older one is forgotten as a whole. */
  #ended = new Map<string, number>();
  #endedBefore = new Map<string, number>();

  /** null when the request has ended. */
  of({ id }: Request, birth: () => number): RequestState | null {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    if (this.#ended.has(id) || this.#endedBefore.has(id)) return null;
    const state = { birth: birth(), proposed: null, highest: 0, used: 0, calls: 0 };
    this.#open.set(id, state);
    return state;
  }

  /** The request has ended, whether the nodes know it or not. Returns its largest proposal. */
  end({ id }: Request): number {
    const state = this.#open.get(id);
    const highest = state?.highest ?? this.#ended.get(id) ?? this.#endedBefore.get(id) ?? 0;
    if (state !== undefined) {
      state.proposed = null;
      state.calls += 1;
      this.#open.delete(id);
    }
    this.#ended.set(id, highest);
    if (this.#ended.size === ENDED_REMEMBERED) {
      this.#endedBefore = this.#ended;
      this.#ended = new Map();
    }
    return highest;
  }
}

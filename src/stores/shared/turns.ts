// Numbers for the requests of one opened store, so that the server can tell late attempts from live ones with one number
// per store and key (P8): whatever has a lower number than the oldest request that is still open has ended.

import type { Request } from "../../core/store.ts";

/** Core does not ask again with an id that has ended; some are remembered for callers that do: so many, up to twice as many. */
const ENDED_REMEMBERED = 2_048;

interface Turn {
  readonly number: number;
  readonly keys: readonly string[];
  /** The server may not have heard of it. */
  isOpen: boolean;
  /** A statement of it has left, or is about to. */
  isSent: boolean;
}

export class Turns {
  readonly #byId = new Map<string, Turn>();
  /** Open numbers by key, the oldest first. */
  readonly #open = new Map<string, number[]>();
  /** Two generations: the older one is forgotten as a whole. */
  #ended = new Set<string>();
  #endedBefore = new Set<string>();
  #next = 1;

  /** The number for one attempt of a request, which is open from now on; null when it has ended. */
  number(request: Request): number | null {
    const known = this.#byId.get(request.id);
    if (known?.isOpen === true) return known.number;
    if (this.#ended.has(request.id) || this.#endedBefore.has(request.id)) return null;
    const number = this.#next;
    this.#next += 1;
    this.#byId.set(request.id, { number, keys: request.keys, isOpen: true, isSent: known?.isSent === true });
    for (const key of request.keys) {
      const open = this.#open.get(key);
      if (open === undefined) this.#open.set(key, [number]);
      else open.push(number);
    }
    return number;
  }

  /** A statement of this request leaves now. False: the request has ended, and it must not leave. */
  sent(request: Request): boolean {
    const turn = this.#byId.get(request.id);
    if (turn !== undefined) turn.isSent = true;
    return turn !== undefined;
  }

  /** The server has certainly not heard of it. */
  isUnsent(request: Request): boolean {
    return this.#byId.get(request.id)?.isSent === false;
  }

  /** The request has ended, whether the server knows it or not. Returns the number that it had, or a new one. */
  end(request: Request): number {
    const number = this.#byId.get(request.id)?.number ?? this.#next++;
    this.close(request);
    this.#ended.add(request.id);
    if (this.#ended.size === ENDED_REMEMBERED) {
      this.#endedBefore = this.#ended;
      this.#ended = new Set();
    }
    return number;
  }

  /**
   * The server has answered under this number. The request lives on, with a new number when it asks again.
   * It no longer keeps the server from forgetting requests that ended after it.
   */
  answered(request: Request): void {
    const turn = this.#byId.get(request.id);
    if (turn !== undefined) this.#forget(turn);
  }

  /** Nobody will ask with this id again. */
  close(request: Request): void {
    this.answered(request);
    this.#byId.delete(request.id);
  }

  #forget(turn: Turn): void {
    const { number, keys } = turn;
    turn.isOpen = false;
    for (const key of keys) {
      const open = this.#open.get(key);
      const at = open?.indexOf(number) ?? -1;
      if (open === undefined || at === -1) continue;
      open.splice(at, 1);
      if (open.length === 0) this.#open.delete(key);
    }
  }

  isOpen(request: Request): boolean {
    return this.#byId.has(request.id);
  }

  /** Per key the oldest number that is open beside this request's own. */
  oldestOpen(request: Request): number[] {
    const own = this.#byId.get(request.id)?.number;
    return request.keys.map((key) => this.#open.get(key)?.find((number) => number !== own) ?? this.#next);
  }

  /** How many requests are open. */
  get size(): number {
    return this.#byId.size;
  }
}

// What this process remembers of its requests, so that an attempt that arrives late changes nothing (P8).
// Every attempt carries a time of the server after which the server ignores it. A request whose attempts were
// all answered leaves nothing in the server. A request with an unanswered attempt leaves a mark there when it
// ends, for as long as that attempt may still arrive.

import type { Request } from "../../../core/store.ts";
import { EndedIds } from "../../shared/ended-ids.ts";

export class OpenRequest {
  /** Attempts without an answer. */
  unanswered = 0;
  /** When the server ignores the last of them, by its own clock. */
  notAfterMs = 0;
  /** No attempt may be sent any more. */
  isEnded = false;

  sent(notAfterMs: number): void {
    this.unanswered += 1;
    this.notAfterMs = Math.max(this.notAfterMs, notAfterMs);
  }
}

export class OpenRequests {
  readonly #open = new Map<string, OpenRequest>();
  readonly #ended = new EndedIds();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** null: the request has ended. */
  begin({ id }: Request): OpenRequest | null {
    const known = this.#open.get(id);
    if (known !== undefined) return known.isEnded ? null : known;
    if (this.#ended.has(id)) return null;
    const opened = new OpenRequest();
    this.#open.set(id, opened);
    return opened;
  }

  /** No attempt is sent from now on. Returns until when attempts may still arrive, or 0. */
  end(id: string): number {
    const known = this.#open.get(id);
    if (known === undefined) return 0;
    known.isEnded = true;
    return known.unanswered === 0 ? 0 : known.notAfterMs;
  }

  /**
   * The server has released the request, and every attempt of it was answered: none can arrive late. Most
   * requests end so. To remember their ids took a tenth of the time of a busy process.
   */
  released(id: string): void {
    this.#open.delete(id);
  }

  /** The server has ended the request. */
  ended(id: string): void {
    const known = this.#open.get(id);
    if (known !== undefined) known.isEnded = true;
    this.#open.delete(id);
    this.#ended.add(id, this.#nowMs());
  }
}

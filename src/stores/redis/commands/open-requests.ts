// What this process remembers of its requests, so that an attempt which arrives late changes nothing (P8).
// Every attempt carries a time of the server after which it is worthless. A request whose attempts were all
// answered needs no memory in the server. One with an attempt that was never answered leaves a mark there
// when it ends, for as long as that attempt may still arrive.

import type { Request } from "../../../core/store.ts";
import { EndedIds } from "../../shared/ended-ids.ts";

export class OpenRequest {
  /** Attempts without an answer. */
  unanswered = 0;
  /** When the last of them is worthless, by the server's clock. */
  notAfterMs = 0;
  /** An attempt that was not sent yet must not be sent any more. */
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

  /** No attempt is sent from now on. Gives until when attempts may still arrive, or 0. */
  end(id: string): number {
    const known = this.#open.get(id);
    if (known === undefined) return 0;
    known.isEnded = true;
    return known.unanswered === 0 ? 0 : known.notAfterMs;
  }

  /** The server has forgotten it. */
  ended(id: string): void {
    const known = this.#open.get(id);
    if (known !== undefined) known.isEnded = true;
    this.#open.delete(id);
    this.#ended.add(id, this.#nowMs());
  }
}

// What this process remembers of its requests, so that an attempt which arrives late changes nothing (P8). A
// request whose attempts were all answered needs no memory in the server. One that ends with an attempt that
// was never answered leaves a mark in the table of ended requests.

import type { Request } from "../../core/store.ts";
import { EndedIds } from "../shared/ended-ids.ts";

export class OpenRequest {
  isSent = false;
  isEnded = false;
  /** Attempts without an answer. */
  unanswered = 0;

  /** Runs just before an attempt leaves. */
  send(): void {
    if (this.isEnded) throw new Error("its request has ended");
    this.isSent = true;
    this.unanswered += 1;
  }

  answered(): void {
    this.unanswered -= 1;
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

  /** No attempt leaves from now on. Whether one that left may still arrive. */
  end({ id }: Request): boolean {
    const known = this.#open.get(id);
    if (known === undefined) return false;
    known.isEnded = true;
    return known.unanswered > 0;
  }

  /** The server knows that it has ended, or need not know. */
  forget({ id }: Request): void {
    const known = this.#open.get(id);
    if (known !== undefined) known.isEnded = true;
    this.#open.delete(id);
    this.#ended.add(id, this.#nowMs());
  }

  /** The server has certainly not heard of it. */
  isUnsent({ id }: Request): boolean {
    return this.#open.get(id)?.isSent === false;
  }
}

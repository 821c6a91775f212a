// What this process remembers of its requests, so that an attempt which arrives late changes nothing (P8). A
// request whose attempts were all answered needs no memory in the server. One with an attempt that was never
// answered leaves a row in holdfast_ended when it ends.

import type { Request } from "../../core/store.ts";
import { EndedIds } from "../shared/ended-ids.ts";

export class OpenRequest {
  /** A statement of it has left, or is about to. */
  isSent = false;
  #unanswered = 0;
  #isEnded = false;

  /** A statement of it leaves now. Throws when it must not leave any more. */
  readonly sent = (): void => {
    if (this.#isEnded) throw new Error("its request has ended");
    this.isSent = true;
    this.#unanswered += 1;
  };

  answered(): void {
    this.#unanswered -= 1;
  }

  end(): void {
    this.#isEnded = true;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** An attempt of it may still arrive at the server. */
  get mayArrive(): boolean {
    return this.#unanswered > 0;
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

  /** No attempt is sent from now on. Whether one that was sent may still arrive. */
  end({ id }: Request): boolean {
    const known = this.#open.get(id);
    known?.end();
    return known?.mayArrive === true;
  }

  /** The server has forgotten it, or never heard of it. */
  forget({ id }: Request): void {
    this.#open.get(id)?.end();
    this.#open.delete(id);
    this.#ended.add(id, this.#nowMs());
  }

  isUnsent({ id }: Request): boolean {
    return this.#open.get(id)?.isSent === false;
  }
}

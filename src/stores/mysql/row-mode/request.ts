// One request of row mode on its way: from a session that asks for the row, through the wait, to the hold.
//
// 1. new: nothing asked. 2. waiting: the server keeps the question until the row is free. 3. locked: the
//    session has the row, but no fence yet. 4. held: a fence was drawn while the row was locked, and the
//    session was alive afterwards. 5. over.

import type { Request } from "../../../core/store.ts";
import type { Drawn } from "./metadata.ts";
import type { RowSession } from "./session.ts";

export class RowRequest {
  request: Request;
  state: "new" | "waiting" | "locked" | "held" | "over" = "new";
  session: RowSession | null = null;
  drawn: Drawn | null = null;
  /** What the record says of the holder. */
  used = 0;
  label = "";
  /** Settles when the wait is over, one way or the other. */
  waiting: Promise<void> = Promise.resolve();
  #work: Promise<unknown> = Promise.resolve();

  constructor(request: Request) {
    this.request = request;
  }

  /** Attempts of one request follow each other: core may ask again while an answer is still under way. */
  serially<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#work.then(work);
    this.#work = next.catch(() => {});
    return next;
  }
}

/** After how many idle seconds the server shall end the session. Whole seconds are all that it knows. */
export function idleSeconds({ ttlMs, graceMs }: Pick<Request, "ttlMs" | "graceMs">): number {
  return Math.max(1, Math.ceil((ttlMs + graceMs) / 1_000));
}

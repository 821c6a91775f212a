// One request of a session store: the session that it has, and how far it has got. A seat does one thing at a time.
//
// 1. Try: one step that takes the lock, draws the fence after it and writes down who holds it.
// 2. Busy, with a place in line: the session waits in the server for the lock.
// 3. The wait is over: the lock is held, but nobody may use it yet, because nobody knows for how long it has been. The next attempt
//    draws the fence on the same session, and the window counts from the send of that attempt: the idle time of the session,
//    after which the server ends it, begins after it.

import type { Request } from "../../core/store.ts";
import type { Claim, LockSession } from "./session-desk.ts";

export type Phase = "new" | "waiting" | "locked" | "held" | "lost";

export class Seat<S extends LockSession> implements Claim {
  readonly request: Request;
  readonly room: number;
  session: S | null = null;
  phase: Phase = "new";
  fence = 0n;
  lastsMs: number;
  /** Settles when the wait in the server is over, however it ended. */
  waited: Promise<void> = Promise.resolve();
  #work: Promise<unknown> = Promise.resolve();
  #working = 0;

  constructor(request: Request) {
    this.request = request;
    this.lastsMs = request.ttlMs + request.graceMs;
    this.room = request.mode === "exclusive" ? request.reservedFences : 0;
  }

  get busy(): boolean {
    return this.#working > 0;
  }

  /** After what is under way. */
  async turn<T>(run: () => Promise<T>): Promise<T> {
    this.#working += 1;
    const before = this.#work;
    const mine = (async () => {
      await before.catch(() => {});
      return run();
    })();
    this.#work = mine;
    try {
      return await mine;
    } finally {
      this.#working -= 1;
    }
  }

  /** `over` is told when the wait has ended. */
  wait(session: S, waiting: Promise<void>, over: () => void): void {
    this.phase = "waiting";
    const end = (phase: Phase): void => {
      if (this.session !== session) return;
      this.phase = phase;
      over();
    };
    this.waited = waiting.then(
      () => end("locked"),
      () => end("lost"),
    );
  }
}

// One request of a session store, with its session and its phase. It runs one step at a time.
//
//   new --take--> held --the session ends--> lost
//   new --busy, queued--> waiting --the server grants--> locked --draw the fence--> held
//
// 1. new: one step takes the lock, draws the fence after it and records the holder.
// 2. waiting: the session waits in the server for the lock.
// 3. locked: the session has the lock, but for an unknown time, so the caller must not use it yet. The next
//    attempt draws the fence on the same session. The window counts from the send of that attempt. The server
//    ends an idle session, and its idle time starts after that send.

import type { Request } from "../../core/store.ts";
import type { Claim, LockSession } from "./session-backend.ts";

export type Phase = "new" | "waiting" | "locked" | "held" | "lost";

export class SessionRequest<S extends LockSession> implements Claim {
  readonly request: Request;
  readonly room: number;
  session: S | null = null;
  phase: Phase = "new";
  fence = 0n;
  lastsMs: number;
  /** Resolves when the wait in the server has ended, with or without the lock. */
  waited: Promise<void> = Promise.resolve();
  #work: Promise<unknown> = Promise.resolve();
  #working = 0;

  constructor(request: Request) {
    this.request = request;
    this.lastsMs = request.ttlMs + request.graceMs;
    this.room = request.mode === "exclusive" ? request.reservedFences : 0;
  }

  get isBusy(): boolean {
    return this.#working > 0;
  }

  /** Runs a step after the steps that were started before it. */
  async runExclusive<T>(run: () => Promise<T>): Promise<T> {
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

  /** Enters the phase `waiting`, and calls `over` when the wait has ended. */
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

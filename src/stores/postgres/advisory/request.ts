// One request: the session that it has, and its phase. Its steps run one after another.
//
//   new -> held               one step tries the lock, then draws the fence and writes the holder down
//   new -> waiting -> locked  the lock was busy: the session waits in the server until it has the lock
//   locked -> held            the next attempt draws the fence on the same session
//   waiting -> lost           the wait failed, and its session with it
//
// A lock that came by waiting is not used before the next attempt, because nobody knows since when it is
// held. The window counts from the send of that attempt, and the idle time after which the server ends the
// session begins later.

import type { Request } from "../../../core/store.ts";
import type { Session } from "./session.ts";

export type Phase = "new" | "waiting" | "locked" | "held" | "lost";

export class AdvisoryRequest {
  readonly request: Request;
  /** Numbers that belong to the grant, above its fence. */
  readonly reservedFences: number;
  session: Session | null = null;
  phase: Phase = "new";
  fence = 0n;
  /** For how long the server lets the session be idle: ttl + grace. */
  lastsMs: number;
  /** Settles when the wait in the server is over, however it ended. */
  waitEnded: Promise<void> = Promise.resolve();
  #lastStep: Promise<unknown> = Promise.resolve();
  #openSteps = 0;

  constructor(request: Request) {
    this.request = request;
    this.lastsMs = request.ttlMs + request.graceMs;
    this.reservedFences = request.mode === "exclusive" ? request.reservedFences : 0;
  }

  get isBusy(): boolean {
    return this.#openSteps > 0;
  }

  /** Runs `step` after the steps before it. */
  async run<T>(step: () => Promise<T>): Promise<T> {
    this.#openSteps += 1;
    const before = this.#lastStep;
    const result = (async () => {
      await before.catch(() => {});
      return step();
    })();
    this.#lastStep = result;
    try {
      return await result;
    } finally {
      this.#openSteps -= 1;
    }
  }

  /** `wait` is under way on the session; `onEnd` is called when it is over. */
  startWaiting(session: Session, wait: Promise<void>, onEnd: () => void): void {
    this.phase = "waiting";
    const end = (phase: Phase): void => {
      if (this.session !== session) return;
      this.phase = phase;
      onEnd();
    };
    this.waitEnded = wait.then(
      () => end("locked"),
      () => end("lost"),
    );
  }
}

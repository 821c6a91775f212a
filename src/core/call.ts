// Every call to a store goes through here and gets a deadline of its own (P13): a client library may queue a command for
// minutes, and a frozen server never answers.
//
// A call whose connection ended before the reply is repeated within the same deadline, if its caller says
// which answers settle a repeated call. The first try may have been carried out, so an answer that would hide
// that leaves the outcome unknown (P8).

import { Alarm } from "./alarm.ts";
import { isDisconnected, LockError, StoreUnavailableError } from "./errors.ts";
import { showKey } from "./key.ts";
import type { Io } from "./store.ts";
import type { System } from "./system.ts";

/** A store that answers within the same turn of the event loop may keep it from turning for so long, not longer. */
const BREATH_MS = 10;
/**
 * Repeats begin within this share of the timeout, so that the caller gets the last error and not the timeout.
 */
const REPEAT_SHARE = 0.7;
/** Before the first repeat, and at most: each pause is twice as long as the one before. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;

/** For calls that tell the same truth however often they are carried out. */
export const anyAnswer = (): boolean => true;

export class Caller {
  readonly #system: System;
  readonly #deadlines: Alarm<Call>;
  #breath: Promise<void> | null = null;
  #breathlessSinceMs = 0;

  constructor(system: System) {
    this.#system = system;
    this.#deadlines = new Alarm<Call>(system, (due) => {
      for (const call of due) {
        system.pending(-1);
        call.giveUp();
      }
    });
  }

  /**
   * Runs one call, for which the process stays alive. Rejects with a LockError only: what a store throws
   * otherwise is wrapped, the cause kept. `settles` says which answers settle a repeated call; without it,
   * nothing is repeated.
   */
  call<T>(
    what: string,
    key: string | undefined,
    timeoutMs: number,
    run: (io: Io) => Promise<T>,
    settles?: (answer: T) => boolean,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const call = new Call(this.#system, what, key, timeoutMs, reject);
      const nowMs = this.#system.monoMs();
      this.#deadlines.set(call, nowMs + timeoutMs);
      this.#system.pending(1);
      const breath = this.#breathe(nowMs);
      const answered = (value: T): void => {
        this.#settled(call);
        resolve(value);
      };
      const failed = (error: unknown): void => {
        this.#settled(call);
        reject(named(error, what, key));
      };
      (breath === null ? run(call) : breath.then(() => run(call))).then(answered, (error: unknown) => {
        if (settles === undefined || !isDisconnected(error)) return failed(error);
        const untilMs = nowMs + timeoutMs * REPEAT_SHARE;
        this.#repeat(call, run, error, settles, untilMs).then(answered, failed);
      });
    });
  }

  /** `error`: of the first try. */
  async #repeat<T>(
    call: Call,
    run: (io: Io) => Promise<T>,
    error: unknown,
    settles: (answer: T) => boolean,
    untilMs: number,
  ): Promise<T> {
    let [doubt, pauseMs] = [error, FIRST_PAUSE_MS];
    while (this.#system.monoMs() < untilMs) {
      await call.sleep(pauseMs);
      pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs);
      try {
        const answer = await run(call);
        if (settles(answer)) return answer;
        break;
      } catch (again) {
        if (!isDisconnected(again)) throw again;
        doubt = again;
      }
    }
    throw doubt;
  }

  /** The surroundings of a call that its caller ends by itself, such as a listing that is read step by step. */
  io(what: string, timeoutMs: number): Io {
    return new Call(this.#system, what, undefined, timeoutMs, () => {});
  }

  /** Of a call that was given up before, nobody hears any more. */
  #settled(call: Call): void {
    if (this.#deadlines.delete(call)) this.#system.pending(-1);
  }

  /** What a call has to wait for first: nothing, or the event loop's next turn when calls have kept it busy for long. */
  #breathe(nowMs: number): Promise<void> | null {
    if (this.#breath !== null) return nowMs - this.#breathlessSinceMs > BREATH_MS ? this.#breath : null;
    this.#breathlessSinceMs = nowMs;
    this.#breath = this.#system.yield().then(() => {
      this.#breath = null;
    });
    return null;
  }

  /** The store is closed: what it has not answered it never will. */
  stop(): void {
    const unanswered = this.#deadlines.take(Number.POSITIVE_INFINITY);
    this.#deadlines.stop();
    for (const call of unanswered) {
      this.#system.pending(-1);
      call.giveUp();
    }
  }
}

/** How long one call may take: long enough for a slow network, short enough to try again within the lease. */
export function callTimeoutMs(ttlMs: number): number {
  return Math.min(2_000, Math.max(50, ttlMs / 3));
}

class Call implements Io {
  readonly timeoutMs: number;
  readonly #system: System;
  readonly #what: string;
  readonly #key: string | undefined;
  readonly #reject: (error: LockError) => void;
  #controller: AbortController | null = null;
  #givenUp = false;

  constructor(
    system: System,
    what: string,
    key: string | undefined,
    timeoutMs: number,
    reject: (error: LockError) => void,
  ) {
    this.#system = system;
    this.#what = what;
    this.#key = key;
    this.timeoutMs = timeoutMs;
    this.#reject = reject;
  }

  /** Made when asked for: most calls never look at it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#givenUp) this.#controller.abort();
    return this.#controller.signal;
  }

  sleep(ms: number): Promise<void> {
    if (ms <= 0) return this.#system.yield();
    return new Promise((resolve) => {
      this.#system.after(ms, resolve);
    });
  }

  giveUp(): void {
    this.#givenUp = true;
    this.#controller?.abort();
    const about = this.#key === undefined ? "" : ` of ${showKey(this.#key)}`;
    this.#reject(
      new StoreUnavailableError(
        `the store did not answer the ${this.#what}${about} within ${Math.round(this.timeoutMs)} ms: it is frozen, overloaded or cut off`,
        { key: this.#key },
      ),
    );
  }
}

function named(error: unknown, what: string, key: string | undefined): LockError {
  if (LockError.is(error)) return error;
  const about = key === undefined ? "" : ` of ${showKey(key)}`;
  const detail = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(`the store failed at the ${what}${about}: ${detail}`, {
    key,
    cause: error,
  });
}

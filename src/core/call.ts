// Every call to a store goes through here and gets a deadline of its own (P13): a client library may queue a command for
// minutes, and a frozen server never answers.
//
// A store that has answered none of the last calls is not sent any more of them, but one now and then
// (P20): each of them would take memory here, in the client and in the server's socket, and would be
// carried out when nobody wants it.
//
// A call whose connection ended before the reply is repeated within the same deadline, if its caller says
// which answers settle a repeated call. The first try may have been carried out, so an answer that would hide
// that leaves the outcome unknown (P8).

import { Alarm } from "./alarm.ts";
import { isDisconnected, isUnsent, LockError, StoreUnavailableError } from "./errors.ts";
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

/** After so many timeouts without any answer, a store counts as silent. */
const SILENT_TIMEOUTS = 100;
/** A silent store is sent one call in this time. */
const PROBE_MS = 500;
/** There are never more of these than leases and stores, so they are always sent. */
const ALWAYS_SENT: ReadonlySet<string> = new Set(["renewal", "release", "abandon", "opening", "close"]);

const SILENCE = "it is frozen, overloaded or cut off";

/** For calls that tell the same truth however often they are carried out. */
export const anyAnswer = (): boolean => true;

export class Caller {
  readonly #system: System;
  readonly #deadlines: Alarm<Call>;
  #breath: Promise<void> | null = null;
  #breathlessSinceMs = 0;
  /** Timeouts since the last answer. */
  #timeouts = 0;
  #probedMs = Number.NEGATIVE_INFINITY;
  /** Runs at every answer of the store, also at one that comes too late. */
  onAnswer: (() => void) | null = null;

  constructor(system: System) {
    this.#system = system;
    this.#deadlines = new Alarm<Call>(system, (due) => {
      for (const call of due) {
        system.pending(-1);
        this.#timeouts += 1;
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
    const nowMs = this.#system.monoMs();
    if (this.#isSilent(what, nowMs)) return this.#rejectUnsent(what, key);
    return new Promise<T>((resolve, reject) => {
      const call = new Call(this.#system, what, key, timeoutMs, reject);
      this.#deadlines.set(call, nowMs + timeoutMs);
      this.#system.pending(1);
      const breath = this.#breathe(nowMs);
      const answered = (value: T): void => {
        this.#settled(call);
        this.#timeouts = 0;
        this.onAnswer?.();
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
        // The last try was not sent. What became of the first one is as unknown as before.
        if (isUnsent(again)) continue;
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

  #isSilent(what: string, nowMs: number): boolean {
    if (this.#timeouts < SILENT_TIMEOUTS || ALWAYS_SENT.has(what)) return false;
    if (nowMs - this.#probedMs < PROBE_MS) return true;
    this.#probedMs = nowMs;
    return false;
  }

  /** Not at once: whoever tries again without a pause must not keep the answer from arriving. */
  async #rejectUnsent(what: string, key: string | undefined): Promise<never> {
    await this.#system.yield();
    const why = `the store has answered none of the last ${this.#timeouts} calls: ${SILENCE}`;
    throw new StoreUnavailableError(`the ${what}${about(key)} was not sent, because ${why}`, {
      key,
      unsent: true,
    });
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
    this.#controller ??= this.#system.abortController?.() ?? new AbortController();
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
    const asked = `the ${this.#what}${about(this.#key)} within ${Math.round(this.timeoutMs)} ms`;
    this.#reject(
      new StoreUnavailableError(`the store did not answer ${asked}: ${SILENCE}`, { key: this.#key }),
    );
  }
}

function named(error: unknown, what: string, key: string | undefined): LockError {
  if (LockError.is(error)) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(`the store failed at the ${what}${about(key)}: ${detail}`, {
    key,
    cause: error,
  });
}

function about(key: string | undefined): string {
  return key === undefined ? "" : ` of ${showKey(key)}`;
}

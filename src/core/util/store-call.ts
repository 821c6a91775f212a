// Gives every call to a store a deadline (P13): a client library may queue a command for minutes, and a
// frozen server never answers.
//
// If a store has answered none of the last calls, only one call now and then is still sent (P20). Each
// call takes memory here, in the client and in the server's socket, and the server would execute it when
// it is no longer wanted.
//
// A call whose connection ended before the reply is repeated within the same deadline, if its caller
// defines which answers are final for a repeated call. The server may have executed the first try. An
// answer that could be the result of that leaves the outcome unknown (P8).

import { DueEntry, DueLists } from "./due-lists.ts";
import { isDisconnected, isUnsent, LockError, StoreUnavailableError } from "../errors.ts";
import { showKey } from "../key.ts";
import type { Io } from "../store.ts";
import type { System } from "../system.ts";

/**
 * A store that answers without I/O may keep the event loop from turning for at most this time. After half of
 * it, a call lets the event loop turn.
 */
const LONGEST_BLOCK_MS = 10;
/**
 * Repeats begin within this share of the timeout, so that the caller gets the last error and not the timeout.
 */
const REPEAT_SHARE = 0.7;
/** The first and the longest pause before a repeat. Each pause is twice as long as the one before. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;

/** After this many timeouts without an answer, a store counts as silent. */
const SILENT_TIMEOUTS = 100;
/** The interval of the calls to a silent store. */
const PROBE_MS = 500;
/** Calls that are always sent: there are never more of them than leases and stores. */
const ALWAYS_SENT: ReadonlySet<string> = new Set(["renewal", "release", "abandon", "opening", "close"]);

/**
 * A timer that fires later than this was delayed by a blocked event loop. The call then gets this much
 * more time, but only once: in an overloaded process every timer is late, and its calls must end too.
 */
const BLOCKED_MS = 50;

const SILENCE = "it is frozen, overloaded or cut off";

/** For calls whose answer is the same after any number of executions. */
export const anyAnswer = (): boolean => true;

export class Caller {
  readonly #system: System;
  readonly #deadlines: DueLists<Call>;
  /** Resolves with the next turn of the event loop. null if no call waits for it. */
  #yielding: Promise<void> | null = null;
  #yieldAskedMs: number = Number.NEGATIVE_INFINITY;
  /** Timeouts since the last answer. */
  #timeouts = 0;
  #probedMs = Number.NEGATIVE_INFINITY;
  /** Runs after every answer of the store, also after a late one. */
  onAnswer: (() => void) | null = null;
  /** Answers of the store arrive over a network, so the event loop has turned before each of them. */
  isRemote = false;
  #hasTurned = false;

  constructor(system: System) {
    this.#system = system;
    this.#deadlines = new DueLists<Call>(system, (due) => {
      const nowMs = system.monoMs();
      for (const call of due) {
        // After the event loop was blocked, timers run before sockets are read: the answer may already be
        // there.
        if (!call.isPostponed && nowMs - call.dueMs > BLOCKED_MS) {
          call.isPostponed = true;
          this.#deadlines.set(call, BLOCKED_MS, nowMs + BLOCKED_MS);
          continue;
        }
        system.pending(-1);
        this.#timeouts += 1;
        call.giveUp();
      }
    });
  }

  /**
   * Runs one call, and keeps the process alive meanwhile. Rejects only with a LockError, which wraps any
   * other error of the store. `settles` returns whether an answer is final for a repeated call. Without
   * it, the call is not repeated.
   */
  call<T>(
    what: string,
    key: string | undefined,
    timeoutMs: number,
    run: (io: Io) => Promise<T>,
    settles?: (answer: T) => boolean,
  ): Promise<T> {
    const nowMs = this.#system.monoMs();
    if (this.isSilent(what, nowMs)) return this.rejectUnsent(what, key);
    return new Promise<T>((resolve, reject) => {
      const call = new PromisedCall(this.#system, what, key, timeoutMs, reject);
      const yielding = this.begin(call, nowMs);
      const answered = (value: T): void => {
        this.answered(call);
        resolve(value);
      };
      const failed = (error: unknown): void => {
        this.end(call);
        reject(named(error, what, key));
      };
      (yielding === null ? run(call) : yielding.then(() => run(call))).then(answered, (error: unknown) => {
        if (settles === undefined || !isDisconnected(error)) return failed(error);
        this.repeat(call, run, error, settles).then(answered, failed);
      });
    });
  }

  /**
   * Starts a call, and keeps the process alive until `end` or the deadline. Returns a promise to wait for
   * before the call is sent, or null.
   */
  begin(call: Call, nowMs: number): Promise<void> | null {
    this.#deadlines.set(call, call.timeoutMs, nowMs + call.timeoutMs);
    this.#system.pending(1);
    return this.#yieldIfStarving(nowMs);
  }

  /** Ends a call. Returns whether it was still before its deadline: later results are ignored. */
  end(call: Call): boolean {
    if (!this.#deadlines.delete(call)) return false;
    this.#system.pending(-1);
    return true;
  }

  /** As `end`, for a call that the store has answered. */
  answered(call: Call): boolean {
    const inTime = this.end(call);
    this.#timeouts = 0;
    this.#hasTurned = this.isRemote;
    this.onAnswer?.();
    return inTime;
  }

  /** Repeats a call whose connection ended. `error` is that of the first try. */
  async repeat<T>(
    call: Call,
    run: (io: Io) => Promise<T>,
    error: unknown,
    settles: (answer: T) => boolean,
  ): Promise<T> {
    const untilMs = call.dueMs - call.timeoutMs * (1 - REPEAT_SHARE);
    let [doubt, pauseMs] = [error, FIRST_PAUSE_MS];
    while (this.#system.monoMs() < untilMs) {
      await call.sleep(pauseMs);
      pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs);
      try {
        const answer = await run(call);
        if (settles(answer)) return answer;
        break;
      } catch (again) {
        // The last try was not sent. The outcome of the first one is still unknown.
        if (isUnsent(again)) continue;
        if (!isDisconnected(again)) throw again;
        doubt = again;
      }
    }
    throw doubt;
  }

  /** The context of a call that its caller ends itself, such as the iteration of `list`. */
  io(what: string, timeoutMs: number): Io {
    return new PromisedCall(this.#system, what, undefined, timeoutMs, () => {});
  }

  /** Whether a call must not be sent, because the store is silent. */
  isSilent(what: string, nowMs: number): boolean {
    if (this.#timeouts < SILENT_TIMEOUTS || ALWAYS_SENT.has(what)) return false;
    if (nowMs - this.#probedMs < PROBE_MS) return true;
    this.#probedMs = nowMs;
    return false;
  }

  /**
   * Rejects after a turn of the event loop, so that a caller that retries without a pause does not block
   * answers.
   */
  async rejectUnsent(what: string, key: string | undefined): Promise<never> {
    await this.#system.yield();
    const why = `the store has answered none of the last ${this.#timeouts} calls: ${SILENCE}`;
    throw new StoreUnavailableError(`the store was not asked for the ${what}${about(key)}, because ${why}`, {
      key,
      unsent: true,
    });
  }

  /**
   * A turn of the event loop that the next call must wait for, if calls have kept the event loop busy for
   * long.
   */
  #yieldIfStarving(nowMs: number): Promise<void> | null {
    if (this.#hasTurned) {
      this.#hasTurned = false;
      this.#yieldAskedMs = nowMs;
      return null;
    }
    const askedForMs = nowMs - this.#yieldAskedMs;
    if (this.#yielding !== null) return askedForMs > LONGEST_BLOCK_MS / 2 ? this.#yielding : null;
    if (askedForMs <= LONGEST_BLOCK_MS / 2) return null;
    this.#yieldAskedMs = nowMs;
    this.#yielding = this.#system.yield().then(() => {
      this.#yielding = null;
    });
    return null;
  }

  /** Ends all calls without an answer, because the store is closed. */
  stop(): void {
    const unanswered = this.#deadlines.take(Number.POSITIVE_INFINITY);
    this.#deadlines.stop();
    for (const call of unanswered) {
      this.#system.pending(-1);
      call.giveUp();
    }
  }
}

/** The timeout of one call: long enough for a slow network, and short enough for a retry within the lease. */
export function callTimeoutMs(ttlMs: number): number {
  return Math.min(2_000, Math.max(50, ttlMs / 3));
}

/** A call in flight. */
export abstract class Call extends DueEntry implements Io {
  readonly timeoutMs: number;
  isPostponed = false;
  readonly #system: System;
  readonly #what: string;
  readonly #key: string | undefined;
  #controller: AbortController | null = null;
  #givenUp = false;

  constructor(system: System, what: string, key: string | undefined, timeoutMs: number) {
    super();
    this.#system = system;
    this.#what = what;
    this.#key = key;
    this.timeoutMs = timeoutMs;
  }

  /** The deadline has passed without an answer. */
  protected abstract expired(error: LockError): void;

  /** Made on first use, because most calls do not read it. */
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
    this.expired(
      new StoreUnavailableError(`the store did not answer ${asked}: ${SILENCE}`, { key: this.#key }),
    );
  }
}

class PromisedCall extends Call {
  readonly #reject: (error: LockError) => void;

  constructor(
    system: System,
    what: string,
    key: string | undefined,
    timeoutMs: number,
    reject: (error: LockError) => void,
  ) {
    super(system, what, key, timeoutMs);
    this.#reject = reject;
  }

  protected override expired(error: LockError): void {
    this.#reject(error);
  }
}

/** The error as a LockError. Wraps any other error as its `cause`. */
export function named(error: unknown, what: string, key: string | undefined): LockError {
  if (LockError.is(error)) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(`the store failed during the ${what}${about(key)}: ${detail}`, {
    key,
    cause: error,
  });
}

function about(key: string | undefined): string {
  return key === undefined ? "" : ` of ${showKey(key)}`;
}

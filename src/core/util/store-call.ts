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

import { DueEntry, DueLists } from "./due-lists.ts";
import { isDisconnected, isUnsent, LockError, StoreUnavailableError } from "../errors.ts";
import { showKey } from "../key.ts";
import type { Io } from "../store.ts";
import type { System } from "../system.ts";

/**
 * A store that answers within the same turn of the event loop may keep it from turning for so long, not longer. Whether
 * it turns is looked at half as often.
 */
const LONGEST_BLOCK_MS = 10;
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

/**
 * A deadline noticed so late was missed by a blocked event loop. The store gets so much more time, once: an
 * overloaded process is late with every timer, and its calls must end all the same.
 */
const BLOCKED_MS = 50;

const SILENCE = "it is frozen, overloaded or cut off";

/** For calls that tell the same truth however often they are carried out. */
export const anyAnswer = (): boolean => true;

export class Caller {
  readonly #system: System;
  readonly #deadlines: DueLists<Call>;
  /** Resolves with the next turn of the event loop; null while nobody asked for it. */
  #yielding: Promise<void> | null = null;
  #yieldAskedMs: number = Number.NEGATIVE_INFINITY;
  /** Timeouts since the last answer. */
  #timeouts = 0;
  #probedMs = Number.NEGATIVE_INFINITY;
  /** Runs at every answer of the store, also at one that comes too late. */
  onAnswer: (() => void) | null = null;
  /** An answer of the store comes over a network, so that the event loop has turned before it. */
  isRemote = false;
  #hasTurned = false;

  constructor(system: System) {
    this.#system = system;
    this.#deadlines = new DueLists<Call>(system, (due) => {
      const nowMs = system.monoMs();
      for (const call of due) {
        // A blocked event loop runs its timers before it reads from its sockets: the answer may be there.
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
   * A call is under way, and the process stays alive for it, until `end` or its deadline. Returns what it has
   * to wait for before it is sent.
   */
  begin(call: Call, nowMs: number): Promise<void> | null {
    this.#deadlines.set(call, call.timeoutMs, nowMs + call.timeoutMs);
    this.#system.pending(1);
    return this.#yieldIfStarving(nowMs);
  }

  /** Whether the call was still under way: results after its deadline are ignored. */
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

  /** Repeats a call whose connection ended. `error`: of the first try. */
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
    return new PromisedCall(this.#system, what, undefined, timeoutMs, () => {});
  }

  /** Whether a call is not to be sent, because the store answers nothing. */
  isSilent(what: string, nowMs: number): boolean {
    if (this.#timeouts < SILENT_TIMEOUTS || ALWAYS_SENT.has(what)) return false;
    if (nowMs - this.#probedMs < PROBE_MS) return true;
    this.#probedMs = nowMs;
    return false;
  }

  /** Not at once: whoever tries again without a pause must not keep the answer from arriving. */
  async rejectUnsent(what: string, key: string | undefined): Promise<never> {
    await this.#system.yield();
    const why = `the store has answered none of the last ${this.#timeouts} calls: ${SILENCE}`;
    throw new StoreUnavailableError(`the store was not asked for the ${what}${about(key)}, because ${why}`, {
      key,
      unsent: true,
    });
  }

  /** What a call has to wait for first: nothing, or the event loop's next turn when calls have kept it busy for long. */
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

/** One call that is under way. */
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

  /** Its deadline has come without an answer. */
  protected abstract expired(error: LockError): void;

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

/** As a LockError: what a store throws otherwise is wrapped, the cause kept. */
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

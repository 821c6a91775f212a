// Opens the store for a call, with retries within its `wait`. All calls share one opening: if a call
// times out, the opening continues, and the next call joins it.

import { LockError, StoreUnavailableError } from "./errors.ts";
import { showKey } from "./key.ts";
import { orAborted, unaskedError } from "./acquire/acquire-errors.ts";
import type { System } from "./system.ts";

/** The minimum time for opening, also with a shorter `wait`: a client needs several round trips. */
const LEAST_MS = 2_000;
/** A timer that fires later than this was delayed by a blocked event loop. */
const BLOCKED_MS = 50;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;

/** The errors of openings that had no result in time. They do not explain why. */
const late = new WeakSet<LockError>();

/** The call that waits for the opening. */
export interface OpeningWait {
  readonly keys: readonly string[];
  /** 0: no retries. */
  readonly waitMs: number;
  readonly signal: AbortSignal | null;
}

/** `open` joins the running opening, or starts one. Retries only errors that are retryable. */
export async function openWithin<T>(open: () => Promise<T>, wait: OpeningWait, system: System): Promise<T> {
  const { keys, waitMs, signal } = wait;
  const sinceMs = system.monoMs();
  let failure: LockError | null = null;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    try {
      const leftMs = sinceMs + Math.max(waitMs, LEAST_MS) - system.monoMs();
      return await orAborted(keys, signal, before(leftMs, system, open(), keys));
    } catch (error) {
      if (!LockError.is(error) || !error.retryable || waitMs === 0) throw error;
      // Prefer the error of an earlier try: it explains more than a timeout.
      if (failure === null || !late.has(error)) failure = error;
    }
    const waitedMs = system.monoMs() - sinceMs;
    const inMs = pauseMs * (0.75 + system.random() / 2);
    if (waitedMs + inMs >= waitMs) throw unaskedError(keys, Math.round(waitedMs), failure);
    await pause(inMs, system, wait);
  }
}

/** Settles as `work`, or rejects when the time is over. `work` then continues in the background. */
function before<T>(ms: number, system: System, work: Promise<T>, keys: readonly string[]): Promise<T> {
  return new Promise((resolve, reject) => {
    const untilMs = system.monoMs() + ms;
    let isPostponed = false;
    let cancel = (): void => {};
    const giveUp = (): void => {
      // After the event loop was blocked, timers run before I/O: let the events of the opening run first.
      if (!isPostponed && system.monoMs() - untilMs > BLOCKED_MS) {
        isPostponed = true;
        cancel = system.after(BLOCKED_MS, giveUp);
        return;
      }
      const names = keys.map(showKey).join(", ");
      const why = `the store did not open within ${Math.round(ms)} ms, so ${names} was not acquired`;
      const error = new StoreUnavailableError(`${why}. Opening continues, and the next call joins it`, {
        key: keys[0],
      });
      late.add(error);
      reject(error);
    };
    cancel = system.after(Math.max(0, ms), giveUp);
    work
      .then(resolve, reject)
      .finally(() => cancel())
      .catch(() => {});
  });
}

async function pause(ms: number, system: System, { keys, signal }: OpeningWait): Promise<void> {
  let cancel = (): void => {};
  const over = new Promise<void>((resolve) => {
    cancel = system.after(ms, resolve);
  });
  await orAborted(keys, signal, over).finally(() => cancel());
}

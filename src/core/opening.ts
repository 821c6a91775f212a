// The opening of a store counts under `wait`, and is retried within it. It is shared: a call that gives up
// leaves it running, and the next call joins it.

import { LockError, StoreUnavailableError } from "./errors.ts";
import { showKey } from "./key.ts";
import { orAborted, unaskedError } from "./acquire/acquire-errors.ts";
import type { System } from "./system.ts";

/** However short the wait, opening gets the time of one call: a client needs some round trips for it. */
const LEAST_MS = 2_000;
/** A deadline that is noticed later than this was noticed late, because the event loop was blocked. */
const BLOCKED_MS = 50;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;

/** Errors that say no more than that opening takes longer than somebody waits. */
const late = new WeakSet<LockError>();

/** Who waits for the opening. */
export interface OpeningWait {
  readonly keys: readonly string[];
  /** 0: one try. */
  readonly waitMs: number;
  readonly signal: AbortSignal | null;
}

/** `open` joins the opening under way, or begins another one. What fails for good is not retried. */
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
      // Why an earlier try failed says more than that this one takes too long.
      if (failure === null || !late.has(error)) failure = error;
    }
    const waitedMs = system.monoMs() - sinceMs;
    const inMs = pauseMs * (0.75 + system.random() / 2);
    if (waitedMs + inMs >= waitMs) throw unaskedError(keys, Math.round(waitedMs), failure);
    await pause(inMs, system, wait);
  }
}

/** As `work`, which goes on by itself when the time is over. */
function before<T>(ms: number, system: System, work: Promise<T>, keys: readonly string[]): Promise<T> {
  return new Promise((resolve, reject) => {
    const untilMs = system.monoMs() + ms;
    let isPostponed = false;
    let cancel = (): void => {};
    const giveUp = (): void => {
      // A blocked event loop runs its timers first: the store may be open the next moment.
      if (!isPostponed && system.monoMs() - untilMs > BLOCKED_MS) {
        isPostponed = true;
        cancel = system.after(BLOCKED_MS, giveUp);
        return;
      }
      const names = keys.map(showKey).join(", ");
      const why = `the store was not open after ${Math.round(ms)} ms, so ${names} could not be asked for`;
      const error = new StoreUnavailableError(`${why}. Opening goes on, and the next call joins it`, {
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

// Retries within the timeout of one call. A server that was restarted, or that has a new primary, answers
// again within moments. The caller of `verify()` or `tryAcquire()` must not have to repeat the call because a
// connection was old.
//
// 1. `run` is repeated only while its error proves that nothing was executed: no connection, or the server
//    refused.
// 2. Retrying ends at a share of the call's timeout, so that the caller gets the last error and not the
//    timeout. That error is marked as unsent.

import { markUnsent } from "../../core/errors.ts";

/** The part of a call that retrying needs. Without `timeoutMs` or `sleep` nothing is retried. */
export interface CallContext {
  /** Aborts when core has stopped listening. */
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  /** Runs just before a statement is sent. Throws if it must not be sent any more. */
  readonly sent?: () => void;
  sleep?(ms: number): Promise<void>;
}

export interface RetryRule {
  /** Whether the error proves that `run` has changed nothing, and `run` may succeed later. */
  readonly isUnsent: (error: unknown) => boolean;
  /** Runs before each pause, for example to find out where to connect to. */
  readonly beforePause?: () => Promise<void>;
}

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** Of the call's timeout. The rest is for the reply, or for the error that says why there is none. */
const RETRY_SHARE = 0.7;

/**
 * Repeats `run` while nothing was sent and the timeout of the call allows it. Rejects with the last error.
 */
export async function retryWhileUnsent<T>(
  call: CallContext,
  nowMs: () => number,
  run: () => Promise<T>,
  { isUnsent, beforePause }: RetryRule,
): Promise<T> {
  const untilMs = nowMs() + (call.timeoutMs ?? 0) * RETRY_SHARE;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    try {
      return await run();
    } catch (error) {
      if (!isUnsent(error)) throw error;
      await beforePause?.();
      if (nowMs() >= untilMs || call.sleep === undefined || call.signal.aborted) throw markUnsent(error);
    }
    await call.sleep(pauseMs);
  }
}

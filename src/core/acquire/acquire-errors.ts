// How a wait that came to nothing is told: what was wanted, for how long, and who was in the way.

import { onAbort } from "../util/abort-listener.ts";
import {
  LockAbortedError,
  type LockError,
  LockTimeoutError,
  QuorumError,
  StoreUnavailableError,
} from "../errors.ts";
import { showKey } from "../key.ts";
import type { Busy, HolderInfo } from "../store.ts";

export function abortedError(keys: readonly string[], signal: AbortSignal): LockAbortedError {
  return new LockAbortedError(`the wait for ${keys.map(showKey).join(", ")} was aborted by its signal`, {
    key: keys[0],
    cause: signal.reason,
  });
}

/** The locks were closed before the call had a lease. */
export function closedError(keys: readonly string[]): LockAbortedError {
  const what = keys.length === 0 ? "" : `${keys.map(showKey).join(", ")} was not acquired: `;
  return new LockAbortedError(`${what}these locks are closed. Make new ones with createLocks()`, {
    key: keys[0],
  });
}

/** The wait is over, and at its end the store could not be asked. Where nodes disagreed their reasons come along. */
export function unaskedError(keys: readonly string[], waitedMs: number, cause: LockError): LockError {
  const message = `${keys.map(showKey).join(", ")} was not acquired within ${waitedMs} ms because the store could not be asked: ${cause.message}`;
  const options = { key: keys[0], cause };
  if (cause instanceof QuorumError) return new QuorumError(message, { ...options, nodes: cause.nodes });
  return new StoreUnavailableError(message, options);
}

/** Whoever stops waiting does not wait for the work either; it goes on by itself. */
export function orAborted<T>(
  keys: readonly string[],
  signal: AbortSignal | null,
  work: Promise<T>,
): Promise<T> {
  if (signal === null) return work;
  return new Promise((resolve, reject) => {
    const off = onAbort(signal, () => reject(abortedError(keys, signal)));
    work
      .then(resolve, reject)
      .finally(off)
      .catch(() => {});
  });
}

/** A semaphore may have thousands of holders: an error lists so many of them and counts the rest. */
export const SHOWN_HOLDERS = 3;

export function timeoutError(
  keys: readonly string[],
  waitedMs: number,
  { holders = [], holderCount = holders.length, nodes = [] }: Partial<Busy>,
  before: number,
): LockTimeoutError {
  const names = keys.map(showKey).join(", ");
  const by =
    holders.length > 0
      ? heldBy(holders, holderCount)
      : before > 1
        ? "others are before it in the queue"
        : "it is busy";
  const each =
    nodes.length === 0 ? "" : ` (${nodes.map(({ node, reason }) => `${node} ${reason}`).join("; ")})`;
  return new LockTimeoutError(
    `${names} was not acquired within ${waitedMs} ms: ${by}${each}. Wait longer (wait), or look with inspect() or \`holdfast inspect\``,
    {
      key: keys[0],
      waitedMs,
      nodes,
      holders: holders.map(({ label, mode, permits, fence, remainingMs, heldMs }) => ({
        label,
        mode,
        permits,
        fence,
        remainingMs,
        heldMs,
      })),
    },
  );
}

function heldBy(holders: readonly HolderInfo[], holderCount: number): string {
  const named = holders.map(({ label, kept, heldMs, fence, remainingMs }) => {
    const who = `${label}${kept ? " (kept closed)" : ""}`;
    return `${who} for ${Math.round(heldMs)} ms with fence ${fence}, ${Math.round(remainingMs)} ms left`;
  });
  const more = holderCount - named.length;
  return `held by ${named.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}

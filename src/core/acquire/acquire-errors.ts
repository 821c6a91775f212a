// The errors of calls that got no lease: which key they wanted, how long they waited, and who held it.

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
  return new LockAbortedError(`the signal aborted the wait for ${keys.map(showKey).join(", ")}`, {
    key: keys[0],
    cause: signal.reason,
  });
}

/** The locks were closed before the call had a lease. */
export function closedError(keys: readonly string[]): LockAbortedError {
  const what = keys.length === 0 ? "" : `${keys.map(showKey).join(", ")} was not acquired: `;
  return new LockAbortedError(`${what}these locks are closed. Make new locks with createLocks()`, {
    key: keys[0],
  });
}

/**
 * The error of a wait at whose end the store failed. It contains the reasons of the nodes, if there are
 * several.
 */
export function unaskedError(keys: readonly string[], waitedMs: number, cause: LockError): LockError {
  const names = keys.map(showKey).join(", ");
  const message = `${names} was not acquired within ${waitedMs} ms, because the store failed: ${cause.message}`;
  const options = { key: keys[0], cause };
  if (cause instanceof QuorumError) return new QuorumError(message, { ...options, nodes: cause.nodes });
  return new StoreUnavailableError(message, options);
}

/** Settles as `work`, or rejects when the signal aborts. `work` itself continues. */
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

/** How many holders an error lists. It only counts the others: a semaphore may have thousands. */
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
        ? "other calls are before this one in the queue"
        : "the key is busy";
  const each =
    nodes.length === 0 ? "" : ` (${nodes.map(({ node, reason }) => `${node} ${reason}`).join("; ")})`;
  return new LockTimeoutError(
    `${names} was not acquired within ${waitedMs} ms: ${by}${each}. ` +
      "Raise wait, or see who holds it with inspect() or `holdfast inspect`",
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
    const who = `${label}${kept ? " (kept by atLeast)" : ""}`;
    return `${who} for ${Math.round(heldMs)} ms with fence ${fence}, ${Math.round(remainingMs)} ms left`;
  });
  const more = holderCount - named.length;
  return `held by ${named.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
}

// `holdfast/web-locks`: the Web Locks API over a `Locks`, so that code for `navigator.locks` also
// excludes other processes and machines. https://w3c.github.io/web-locks/
//
// Differences to a browser:
// - A lock can be lost while its callback runs. The request then rejects with an AbortError, as the
//   request of a stolen lock does, and `lock.signal` aborts.
// - A request with `steal` takes the lock from its holders, but waits behind requests that are already
//   queued.
// - `query()` lists every lock of the namespace. A client id is the label of a holder.

import type { Lease, Locks } from "../core/api.ts";
import { LockAbortedError, LockLostError } from "../core/errors.ts";

/** The mode of a lock. `"shared"` is a read lock. */
export type WebLockMode = "exclusive" | "shared";

/** A lock that a callback holds. */
export interface WebLock {
  readonly name: string;
  readonly mode: WebLockMode;
  /** Aborts when the lock is lost. Not part of the Web Locks API. */
  readonly signal: AbortSignal;
  /** The fencing token. Not part of the Web Locks API. */
  readonly fence: bigint;
}

/** Options of `request`. */
export interface WebLockOptions {
  /** @default "exclusive" */
  readonly mode?: WebLockMode | undefined;
  /** Calls the callback with null if the lock is not available immediately. */
  readonly ifAvailable?: boolean | undefined;
  /** Takes the lock away from its holders. */
  readonly steal?: boolean | undefined;
  /** Cancels a waiting request. */
  readonly signal?: AbortSignal | undefined;
}

/** A held lock or a waiting request. */
export interface WebLockInfo {
  readonly name: string;
  readonly mode: WebLockMode;
  /** The label of the holder. */
  readonly clientId: string;
}

/** The result of `query`. */
export interface WebLockSnapshot {
  readonly held: readonly WebLockInfo[];
  readonly pending: readonly WebLockInfo[];
}

type Callback<T, L extends WebLock | null = WebLock | null> = (lock: L) => T | PromiseLike<T>;

/** The part of `navigator.locks` that holdfast implements: all of its methods. */
export interface WebLockManager {
  /** Waits for the lock, calls back with it, and holds it until the callback's promise settles. */
  request<T>(name: string, callback: Callback<T, WebLock>): Promise<T>;
  request<T>(
    name: string,
    options: WebLockOptions & { readonly ifAvailable?: false | undefined },
    callback: Callback<T, WebLock>,
  ): Promise<T>;
  request<T>(name: string, options: WebLockOptions, callback: Callback<T>): Promise<T>;
  /** Resolves with all held locks and waiting requests. */
  query(): Promise<WebLockSnapshot>;
}

/**
 * `navigator.locks` over a `Locks`.
 *
 * @example
 * const { request } = webLocks(createLocks("redis://127.0.0.1:6379"));
 * await request("report", async (lock) => writeReport({ signal: lock.signal }));
 */
export function webLocks(locks: Locks): WebLockManager {
  return {
    request: <T>(name: string, ...rest: readonly unknown[]): Promise<T> => request(locks, name, rest),
    query: () => query(locks),
  };
}

async function request<T>(locks: Locks, name: string, rest: readonly unknown[]): Promise<T> {
  const callback = rest.at(-1) as Callback<T>;
  if (typeof callback !== "function")
    throw new TypeError(`callback must be a function, got ${typeof callback}`);
  const options = readOptions(rest.length > 1 ? rest[0] : {});
  if (name.startsWith("-")) throw notSupported('name must not begin with "-"');
  options.signal?.throwIfAborted();
  const lease = await acquire(locks, name, options);
  return lease === null ? callback(null) : hold(lease, callback);
}

function readOptions(given: unknown): WebLockOptions {
  if (given === null || (typeof given !== "object" && given !== undefined))
    throw new TypeError(`options must be an object, got ${given === null ? "null" : typeof given}`);
  const options: WebLockOptions = given ?? {};
  const { mode = "exclusive", ifAvailable = false, steal = false, signal } = options;
  if (mode !== "exclusive" && mode !== "shared")
    throw new TypeError(`mode must be "exclusive" or "shared", got ${String(mode)}`);
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw new TypeError(`signal must be an AbortSignal, got ${String(signal)}`);
  if (steal && ifAvailable) throw notSupported("steal and ifAvailable cannot be combined");
  if (steal && mode !== "exclusive") throw notSupported("steal needs mode exclusive");
  if (signal !== undefined && (steal || ifAvailable))
    throw notSupported("signal cannot be combined with steal or ifAvailable");
  return { mode, ifAvailable, steal, signal };
}

async function acquire(locks: Locks, name: string, options: WebLockOptions): Promise<Lease | null> {
  const { mode, ifAvailable, steal, signal } = options;
  if (ifAvailable === true) return locks.tryAcquire(name, { mode });
  if (steal === true) await locks.revoke(name, { reason: "stolen by another request", force: true });
  try {
    return await locks.acquire(name, { mode, signal, wait: Number.POSITIVE_INFINITY });
  } catch (error) {
    // By the specification, the request rejects with the reason of the signal.
    if (signal?.aborted === true && error instanceof LockAbortedError) throw signal.reason;
    throw error;
  }
}

/** A request settles with its callback, or when its lock is lost. The callback is not interrupted. */
async function hold<T>(lease: Lease, callback: Callback<T>): Promise<T> {
  const { key: name, mode, fence, signal } = lease;
  const lost = new Promise<never>((_resolve, reject) => {
    const fail = (): void => reject(lostError(signal.reason));
    if (signal.aborted) fail();
    else signal.addEventListener("abort", fail, { once: true });
  });
  try {
    return await Promise.race([runNow(() => callback({ name, mode, fence, signal })), lost]);
  } finally {
    lost.catch(() => {});
    // A failed release must not hide the result. The lock then expires with its ttl.
    await lease.release().catch(() => false);
  }
}

async function runNow<T>(callback: () => T | PromiseLike<T>): Promise<T> {
  return callback();
}

async function query(locks: Locks): Promise<WebLockSnapshot> {
  const [held, pending]: [WebLockInfo[], WebLockInfo[]] = [[], []];
  for await (const { key: name, holders, waiters } of locks.list()) {
    for (const { mode, label: clientId } of holders) held.push({ name, mode, clientId });
    for (const { mode, label: clientId } of waiters ?? []) pending.push({ name, mode, clientId });
  }
  return { held, pending };
}

function lostError(reason: unknown): DOMException {
  const why = reason instanceof LockLostError ? reason.message : String(reason);
  return Object.assign(new DOMException(`the lock was lost: ${why}`, "AbortError"), { cause: reason });
}

function notSupported(message: string): DOMException {
  return new DOMException(message, "NotSupportedError");
}

// `holdfast/compat/proper-lockfile`: the API of `proper-lockfile` 4 over a `Locks`, by default the local
// store of this machine. https://github.com/moxystudio/node-proper-lockfile
//
// There is no lock file: the path of the file that it would have is the key. What differs is listed in
// docs/guides/migrating.md.

import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { Lease, Locks } from "../core/api.ts";
import { LockTimeoutError, UnsupportedError } from "../core/errors.ts";
import { createLocksFor } from "../create-locks-for.ts";
import { local } from "../stores/local/index.ts";

/** Of the package `retry`. */
export interface RetryOptions {
  /** @default 10 */
  readonly retries?: number | undefined;
  /** @default 2 */
  readonly factor?: number | undefined;
  /** @default 1_000 */
  readonly minTimeout?: number | undefined;
  /** @default Infinity */
  readonly maxTimeout?: number | undefined;
  /** Accepted and ignored: a waiter is notified, and does not poll. */
  readonly randomize?: boolean | undefined;
  readonly forever?: boolean | undefined;
}

export interface CheckOptions {
  /** Follow symbolic links. The file must exist then. @default true */
  readonly realpath?: boolean | undefined;
  /** @default the path with ".lock" */
  readonly lockfilePath?: string | undefined;
  /** The locks to use. Not part of proper-lockfile. @default the local store of this machine */
  readonly locks?: Locks | undefined;
  /** Rejected: there is no lock file. */
  readonly fs?: never;
}

export interface LockOptions extends CheckOptions {
  /** The ttl in ms, at least 2,000. @default 10_000 */
  readonly stale?: number | undefined;
  /** Accepted and ignored: holdfast renews at a third of `stale`. */
  readonly update?: number | undefined;
  /** The time that these retries take is how long the call waits. @default 0 */
  readonly retries?: number | RetryOptions | undefined;
  /** Called when the lock is lost. Throws by default, which ends the process. */
  readonly onCompromised?: ((error: Error) => void) | undefined;
}

const DEFAULT_STALE_MS = 10_000;
const SHORTEST_STALE_MS = 2_000;
let localLocks: Locks | null = null;
/** By the `Locks`, then by the path. */
const held = new WeakMap<Locks, Map<string, Lease>>();

/**
 * Locks a file. Resolves with the function that releases it.
 *
 * @example
 * const release = await lock("report.csv", { retries: 5 });
 * await release();
 */
export async function lock(file: string, options: LockOptions = {}): Promise<() => Promise<void>> {
  const [locks, path] = [locksOf(options), await pathOf(file, options)];
  const { stale = DEFAULT_STALE_MS, onCompromised = throwError } = options;
  const lease = await acquire(locks, path, stale, waitOf(options.retries), file);
  const own = leasesOf(locks);
  own.set(path, lease);
  lease.signal.addEventListener("abort", () => {
    if (own.get(path) !== lease) return;
    own.delete(path);
    onCompromised(errorOf("ECOMPROMISED", "The lock was lost", file, lease.signal.reason));
  });
  return async () => {
    if (own.get(path) !== lease) throw errorOf("ERELEASED", "Lock is already released", file);
    own.delete(path);
    await lease.release();
  };
}

/** Releases a lock of this process. */
export async function unlock(file: string, options: CheckOptions = {}): Promise<void> {
  const [own, path] = [leasesOf(locksOf(options)), await pathOf(file, options)];
  const lease = own.get(path);
  if (lease === undefined) throw errorOf("ENOTACQUIRED", "Lock is not acquired/owned by you", file);
  own.delete(path);
  await lease.release();
}

/** Whether anyone holds the lock. */
export async function check(file: string, options: CheckOptions = {}): Promise<boolean> {
  const info = await locksOf(options).inspect(keyOf(await pathOf(file, options)));
  return (info?.holders.length ?? 0) > 0;
}

/** Not supported: a lease is renewed and released by the event loop. */
export function lockSync(): never {
  throw notSync("lockSync", "lock");
}

/** Not supported, as `lockSync`. */
export function unlockSync(): never {
  throw notSync("unlockSync", "unlock");
}

/** Not supported, as `lockSync`. */
export function checkSync(): never {
  throw notSync("checkSync", "check");
}

async function acquire(
  locks: Locks,
  path: string,
  stale: number,
  wait: number,
  file: string,
): Promise<Lease> {
  try {
    return await locks.acquire(keyOf(path), { ttl: Math.max(stale, SHORTEST_STALE_MS), wait });
  } catch (error) {
    if (!(error instanceof LockTimeoutError)) throw error;
    throw errorOf("ELOCKED", "Lock file is already being held", file, error);
  }
}

function locksOf({ locks, fs }: CheckOptions): Locks {
  if (fs !== undefined) throw new UnsupportedError("the option fs is not supported: there is no lock file");
  if (locks !== undefined) return locks;
  localLocks ??= createLocksFor(local());
  return localLocks;
}

function leasesOf(locks: Locks): Map<string, Lease> {
  const own = held.get(locks) ?? new Map<string, Lease>();
  held.set(locks, own);
  return own;
}

async function pathOf(file: string, options: CheckOptions): Promise<string> {
  const path = options.realpath === false ? resolve(file) : await realpath(file);
  return options.lockfilePath === undefined ? `${path}.lock` : resolve(options.lockfilePath);
}

const keyOf = (path: string): string => `file:${path}`;

/** The sum of the pauses between so many retries. */
function waitOf(given: number | RetryOptions = 0): number {
  const options = typeof given === "number" ? { retries: given } : given;
  if (options.forever === true) return Number.POSITIVE_INFINITY;
  const { retries = 10, factor = 2, minTimeout = 1_000, maxTimeout = Number.POSITIVE_INFINITY } = options;
  let wait = 0;
  for (let at = 0; at < retries; at += 1) wait += Math.min(minTimeout * factor ** at, maxTimeout);
  return wait;
}

function errorOf(code: string, message: string, file: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code, file });
}

function notSync(name: string, other: string): UnsupportedError {
  return new UnsupportedError(`${name} is not supported: a lock is renewed by the event loop. Use ${other}`);
}

function throwError(error: Error): never {
  throw error;
}

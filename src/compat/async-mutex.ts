// `holdfast/compat/async-mutex`: the API of `async-mutex` 0.5 over a `Locks`, so that a mutex excludes other
// processes too. https://github.com/DirtyHairy/async-mutex
//
// A mutex is known by its key, so the constructors take a `Locks` and a key first. What differs is listed in
// docs/guides/migrating.md.

import type { Lease, Locks } from "../core/api.ts";
import { LockAbortedError, LockTimeoutError, UnsupportedError } from "../core/errors.ts";

export const E_TIMEOUT: Error = new Error("timeout while waiting for mutex to become available");
export const E_ALREADY_LOCKED: Error = new Error("mutex already locked");
export const E_CANCELED: Error = new Error("request for lock canceled");

export interface Releaser {
  (): void;
  /** The lease behind the lock. Not part of async-mutex. */
  readonly lease: Lease;
}

export interface MutexInterface {
  /** @param priority rejected unless 0: waiters get the key in the order of their requests */
  acquire(priority?: number): Promise<Releaser>;
  /** Rejects with `LockLostError` if the lease was lost while `callback` ran. */
  runExclusive<T>(callback: (lease: Lease) => T | Promise<T>, priority?: number): Promise<T>;
  /** Takes the lock and gives it back at once. */
  waitForUnlock(priority?: number): Promise<void>;
  /** Whether this object holds the lock or waits for it. Other processes: `locks.inspect(key)`. */
  isLocked(): boolean;
  release(): void;
  /** Rejects every call of this object that waits. */
  cancel(): void;
}

export interface SemaphoreInterface {
  /** Resolves with the permits that this object saw as free, and the function that gives them back. */
  acquire(weight?: number, priority?: number): Promise<[number, Releaser]>;
  runExclusive<T>(
    callback: (value: number, lease: Lease) => T | Promise<T>,
    weight?: number,
    priority?: number,
  ): Promise<T>;
  waitForUnlock(weight?: number, priority?: number): Promise<void>;
  isLocked(): boolean;
  /** The permits that this object neither holds nor waits for. */
  getValue(): number;
  /** The limit that later calls name. */
  setValue(value: number): void;
  release(weight?: number): void;
  cancel(): void;
}

/** How long calls wait, and what they reject with then. */
interface WaitLimit {
  readonly wait: number;
  readonly error: Error;
}

const FOREVER: WaitLimit = { wait: Number.POSITIVE_INFINITY, error: E_TIMEOUT };

interface Ticket {
  readonly lease: Lease;
  weight: number;
}

/** The permits of one key, as one object and the objects that `withTimeout` made of it see them. */
class Permits {
  limit: number;
  readonly #locks: Locks;
  readonly #key: string;
  readonly #cancelError: Error;
  readonly #tickets = new Set<Ticket>();
  #waiting = 0;
  /** Ends the calls that wait; a new one after each `cancel`. */
  #canceller = new AbortController();

  constructor(locks: Locks, key: string, limit: number, cancelError: Error) {
    this.#locks = locks;
    this.#key = key;
    this.limit = limit;
    this.#cancelError = cancelError;
  }

  get unasked(): number {
    return this.#free - this.#waiting;
  }

  async take(weight: number, priority: number, { wait, error }: WaitLimit): Promise<[number, Releaser]> {
    if (priority !== 0) throw new UnsupportedError("priority is not supported: the queue keeps its order");
    const { signal } = this.#canceller;
    this.#waiting += weight;
    try {
      const options = { wait, signal, limit: this.limit, permits: weight };
      const lease = await this.#locks.acquire(this.#key, options);
      const ticket = { lease, weight };
      const value = this.#free;
      this.#tickets.add(ticket);
      return [value, Object.assign(() => this.#end(ticket), { lease })];
    } catch (thrown) {
      if (thrown instanceof LockTimeoutError) throw error;
      throw thrown instanceof LockAbortedError && signal.aborted ? this.#cancelError : thrown;
    } finally {
      if (!signal.aborted) this.#waiting -= weight;
    }
  }

  /** A lease of several permits ends when all of them were given back. */
  give(weight: number): void {
    let rest = weight;
    for (const ticket of this.#tickets) {
      const part = Math.min(rest, ticket.weight);
      ticket.weight -= part;
      rest -= part;
      if (ticket.weight === 0) this.#end(ticket);
      if (rest === 0) return;
    }
  }

  cancel(): void {
    this.#canceller.abort();
    this.#canceller = new AbortController();
    this.#waiting = 0;
  }

  get #free(): number {
    const held = [...this.#tickets].filter(({ lease }) => lease.held);
    return held.reduce((free, { weight }) => free - weight, this.limit);
  }

  #end(ticket: Ticket): void {
    this.#tickets.delete(ticket);
    // async-mutex releases without a promise. A lease whose release fails ends with its ttl.
    ticket.lease.release().catch(() => {});
  }
}

async function hold<T>(
  taken: Promise<[number, Releaser]>,
  callback: (value: number, lease: Lease) => T | Promise<T>,
): Promise<T> {
  const [value, release] = await taken;
  try {
    const result = await callback(value, release.lease);
    release.lease.assertHeld();
    return result;
  } finally {
    release();
  }
}

/** Throws at once, as async-mutex does. */
function requirePositive(weight: number): void {
  if (weight <= 0) throw new Error(`invalid weight ${weight}: must be positive`);
}

/** For `withTimeout`, which makes another object of the same permits. */
const permitsOf = new WeakMap<object, Permits>();

class MutexView implements MutexInterface {
  readonly #permits: Permits;
  readonly #waitLimit: WaitLimit;

  constructor(permits: Permits, waitLimit: WaitLimit) {
    this.#permits = permits;
    permitsOf.set(this, permits);
    this.#waitLimit = waitLimit;
  }

  async acquire(priority = 0): Promise<Releaser> {
    const [, release] = await this.#permits.take(1, priority, this.#waitLimit);
    return release;
  }

  runExclusive<T>(callback: (lease: Lease) => T | Promise<T>, priority = 0): Promise<T> {
    const taken = this.#permits.take(1, priority, this.#waitLimit);
    return hold(taken, (_value, lease) => callback(lease));
  }

  async waitForUnlock(priority = 0): Promise<void> {
    (await this.acquire(priority))();
  }

  isLocked(): boolean {
    return this.#permits.unasked <= 0;
  }

  release(): void {
    this.#permits.give(1);
  }

  cancel(): void {
    this.#permits.cancel();
  }
}

class SemaphoreView implements SemaphoreInterface {
  readonly #permits: Permits;
  readonly #waitLimit: WaitLimit;

  constructor(permits: Permits, waitLimit: WaitLimit) {
    this.#permits = permits;
    permitsOf.set(this, permits);
    this.#waitLimit = waitLimit;
  }

  acquire(weight = 1, priority = 0): Promise<[number, Releaser]> {
    requirePositive(weight);
    return this.#permits.take(weight, priority, this.#waitLimit);
  }

  runExclusive<T>(
    callback: (value: number, lease: Lease) => T | Promise<T>,
    weight = 1,
    priority = 0,
  ): Promise<T> {
    return hold(this.acquire(weight, priority), callback);
  }

  waitForUnlock(weight = 1, priority = 0): Promise<void> {
    return this.acquire(weight, priority).then(([, release]) => release());
  }

  isLocked(): boolean {
    return this.getValue() <= 0;
  }

  getValue(): number {
    return Math.max(this.#permits.unasked, 0);
  }

  setValue(value: number): void {
    this.#permits.limit = value;
  }

  release(weight = 1): void {
    requirePositive(weight);
    this.#permits.give(weight);
  }

  cancel(): void {
    this.#permits.cancel();
  }
}

/**
 * @example
 * import { Mutex } from "holdfast/compat/async-mutex";
 *
 * const mutex = new Mutex(locks, "order:42");
 * await mutex.runExclusive(() => chargeCard());
 */
export class Mutex extends MutexView {
  constructor(locks: Locks, key: string, cancelError: Error = E_CANCELED) {
    super(new Permits(locks, key, 1, cancelError), FOREVER);
  }
}

export class Semaphore extends SemaphoreView {
  constructor(locks: Locks, key: string, value: number, cancelError: Error = E_CANCELED) {
    super(new Permits(locks, key, value, cancelError), FOREVER);
  }
}

/** The same mutex or semaphore, whose calls wait for at most `timeout` ms. */
export function withTimeout(mutex: MutexInterface, timeout: number, error?: Error): MutexInterface;
export function withTimeout(
  semaphore: SemaphoreInterface,
  timeout: number,
  error?: Error,
): SemaphoreInterface;
export function withTimeout(
  sync: MutexInterface | SemaphoreInterface,
  timeout: number,
  error: Error = E_TIMEOUT,
): MutexInterface | SemaphoreInterface {
  const permits = permitsOf.get(sync);
  if (permits === undefined)
    throw new UnsupportedError("withTimeout and tryAcquire take a Mutex or Semaphore of this module");
  const waitLimit = { wait: timeout, error };
  return sync instanceof MutexView
    ? new MutexView(permits, waitLimit)
    : new SemaphoreView(permits, waitLimit);
}

/** The same mutex or semaphore, whose calls reject at once where the lock is busy. */
export function tryAcquire(mutex: MutexInterface, error?: Error): MutexInterface;
export function tryAcquire(semaphore: SemaphoreInterface, error?: Error): SemaphoreInterface;
export function tryAcquire(
  sync: MutexInterface | SemaphoreInterface,
  error: Error = E_ALREADY_LOCKED,
): MutexInterface | SemaphoreInterface {
  return withTimeout(sync as MutexInterface, 0, error);
}

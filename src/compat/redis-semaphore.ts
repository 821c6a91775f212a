// `holdfast/compat/redis-semaphore`: the API of `redis-semaphore` 5 over a `Locks`.
// https://github.com/swarthy/redis-semaphore
//
// The identifier of a lock is the label of its holder, so `holdfast ls` shows it. What differs is listed in
// docs/guides/migrating.md.

import { randomUUID } from "node:crypto";
import type { Lease, Locks } from "../core/api.ts";
import { LockAbortedError, LockTimeoutError, UnsupportedError } from "../core/errors.ts";
import type { AcquireOptions } from "../core/options.ts";
import { createLocksFor } from "../create-locks-for.ts";
import { type RedisClient, type RedisNodeClient, redis } from "../stores/redis/index.ts";
import { redlock } from "../stores/redlock/index.ts";

export class TimeoutError extends Error {}
export class LostLockError extends Error {}

export type LockLostCallback = (this: Lock, error: LostLockError) => void;

export interface TimeoutOptions {
  /** The ttl. @default 10_000 */
  readonly lockTimeout?: number;
  /** How long to wait. @default 10_000 */
  readonly acquireTimeout?: number;
  /** 1 asks once. Any larger number waits for `acquireTimeout`. */
  readonly acquireAttemptsLimit?: number;
  /** Accepted and ignored: a waiter is woken, and does not poll. */
  readonly retryInterval?: number;
  /** 0 turns renewal off. Any other number: holdfast renews at a third of `lockTimeout`. */
  readonly refreshInterval?: number;
}

export interface LockOptions extends TimeoutOptions {
  readonly identifier?: string;
  readonly identifierSuffix?: string;
  /** Rejected: a lease cannot be taken over by its identifier. */
  readonly acquiredExternally?: true;
  /** Rejected: a lease cannot be taken over by its identifier. */
  readonly externallyAcquiredIdentifier?: string;
  readonly onLockLost?: LockLostCallback;
}

export const defaultTimeoutOptions: Readonly<Required<Omit<TimeoutOptions, "refreshInterval">>> = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

interface Kind {
  /** As errors name it. */
  readonly name: string;
  readonly key: string;
  readonly limit: number;
  readonly permits: number;
}

/** What all classes of redis-semaphore have in common. */
export abstract class Lock {
  readonly identifier: string;
  readonly #locks: Locks;
  readonly #kind: Kind;
  readonly #options: AcquireOptions;
  readonly #onLockLost: LockLostCallback;
  #lease: Lease | null = null;

  protected constructor(locks: Locks, kind: Kind, options: LockOptions) {
    this.#locks = locks;
    this.#kind = kind;
    this.identifier = identifierOf(options);
    // redis-semaphore does not notice the end of a lock that it does not refresh.
    this.#onLockLost = options.onLockLost ?? (options.refreshInterval === 0 ? () => {} : throwLoss);
    const { lockTimeout, acquireTimeout, acquireAttemptsLimit } = { ...defaultTimeoutOptions, ...options };
    this.#options = {
      ttl: lockTimeout,
      wait: acquireAttemptsLimit === 1 ? 0 : acquireTimeout,
      renew: options.refreshInterval !== 0,
      label: this.identifier,
      limit: kind.limit,
      permits: kind.permits,
    };
  }

  /** By the clock: false as soon as the lock may have ended. */
  get isAcquired(): boolean {
    return this.#lease?.held ?? false;
  }

  /** Rejects with `TimeoutError` when the lock is busy for all of `acquireTimeout`. */
  async acquire(signal?: AbortSignal): Promise<void> {
    if (await this.tryAcquire(signal)) return;
    throw new TimeoutError(`Acquire ${this.#kind.name} ${this.#kind.key} timeout`);
  }

  /** Waits as `acquire` does, and resolves with false instead. */
  async tryAcquire(signal?: AbortSignal): Promise<boolean> {
    try {
      const lease = await this.#locks.acquire(this.#kind.key, { ...this.#options, signal });
      this.#lease = lease;
      lease.signal.addEventListener("abort", () => void this.#lost(lease), { once: true });
      return true;
    } catch (error) {
      if (error instanceof LockTimeoutError) return false;
      throw error instanceof LockAbortedError && signal?.aborted === true ? signal.reason : error;
    }
  }

  async release(): Promise<void> {
    const lease = this.#lease;
    this.#lease = null;
    await lease?.release();
  }

  /** Rejected: give `refreshInterval: 0` for a lock that is not renewed. */
  stopRefresh(): never {
    throw new UnsupportedError("a lease that is renewed stays renewed: give refreshInterval: 0 instead");
  }

  /** What the callback throws is an unhandled rejection, as in redis-semaphore. */
  async #lost(lease: Lease): Promise<void> {
    if (this.#lease !== lease) return;
    this.#lease = null;
    const error = new LostLockError(`Lost ${this.#kind.name} for key ${this.#kind.key}`, {
      cause: lease.signal.reason,
    });
    this.#onLockLost.call(this, error);
  }
}

type Client = RedisNodeClient | RedisClient | Locks;
type Clients = readonly RedisNodeClient[] | Locks;

/**
 * @example
 * import { Mutex } from "holdfast/compat/redis-semaphore";
 *
 * const mutex = new Mutex(client, "order:42");
 * await mutex.acquire();
 * try {
 *   await chargeCard();
 * } finally {
 *   await mutex.release();
 * }
 */
export class Mutex extends Lock {
  constructor(client: Client, key: string, options: LockOptions = {}) {
    super(locksOf(client), { name: "mutex", key: `mutex:${nameOf(key)}`, limit: 1, permits: 1 }, options);
  }
}

export class Semaphore extends Lock {
  constructor(client: Client, key: string, limit: number, options: LockOptions = {}) {
    const locks = locksOf(client);
    super(locks, semaphore("semaphore", key, limit, 1), options);
  }
}

export class MultiSemaphore extends Lock {
  constructor(client: Client, key: string, limit: number, permits: number, options: LockOptions = {}) {
    const locks = locksOf(client);
    super(locks, semaphore("multi-semaphore", key, limit, countOf("permits", permits)), options);
  }
}

/** Over three or more independent masters. */
export class RedlockMutex extends Lock {
  constructor(clients: Clients, key: string, options: LockOptions = {}) {
    const locks = locksOfAll(clients);
    super(locks, { name: "redlock-mutex", key: `mutex:${nameOf(key)}`, limit: 1, permits: 1 }, options);
  }
}

const byClient = new WeakMap<object, Locks>();
/** By the first of the masters. */
const byMasters = new WeakMap<
  object,
  { readonly nodes: readonly RedisNodeClient[]; readonly locks: Locks }[]
>();

/** All locks of one client share one `Locks`, and with it its subscription. */
function locksOf(client: Client): Locks {
  if (typeof client !== "object" || client === null) throw new Error('"client" is required');
  if (isLocks(client)) return client;
  const known = byClient.get(client);
  if (known !== undefined) return known;
  const locks = createLocksFor(redis({ client }));
  byClient.set(client, locks);
  return locks;
}

function locksOfAll(clients: Clients): Locks {
  if (isLocks(clients)) return clients;
  if (!Array.isArray(clients)) throw new Error('"clients" array is required');
  const nodes = clients as readonly RedisNodeClient[];
  const [first] = nodes;
  if (first === undefined) throw new Error('"clients" array is required');
  const known = byMasters.get(first) ?? [];
  byMasters.set(first, known);
  const same = known.find(
    (one) => one.nodes.length === nodes.length && one.nodes.every((node, at) => node === nodes[at]),
  );
  if (same !== undefined) return same.locks;
  const locks = createLocksFor(redlock({ nodes }));
  known.push({ nodes: [...nodes], locks });
  return locks;
}

function isLocks(value: unknown): value is Locks {
  return typeof (value as Partial<Locks> | null)?.tryAcquire === "function";
}

function semaphore(name: string, key: string, limit: number, permits: number): Kind {
  return { name, key: `semaphore:${nameOf(key)}`, limit: countOf("limit", limit), permits };
}

function nameOf(key: unknown): string {
  if (key === undefined || key === null || key === "") throw new Error('"key" is required');
  if (typeof key !== "string") throw new Error('"key" must be a string');
  return key;
}

function countOf(name: string, value: unknown): number {
  if (value === undefined || value === null || value === 0) throw new Error(`"${name}" is required`);
  if (typeof value !== "number") throw new Error(`"${name}" must be a number`);
  return value;
}

function identifierOf(options: LockOptions): string {
  const {
    identifier,
    identifierSuffix,
    acquiredExternally,
    externallyAcquiredIdentifier: external,
  } = options;
  if (identifier !== undefined && (typeof identifier !== "string" || identifier === ""))
    throw new Error("identifier must be not empty random string");
  if (acquiredExternally === true && identifier === undefined && external === undefined)
    throw new Error("acquiredExternally=true meanless without custom identifier");
  if (external !== undefined && (identifier !== undefined || acquiredExternally === true))
    throw new Error("Invalid usage. Use custom identifier and acquiredExternally: true");
  if (acquiredExternally === true || external !== undefined)
    throw new UnsupportedError("a lease cannot be taken over by its identifier");
  const uuid = randomUUID();
  return identifier ?? (identifierSuffix === undefined ? uuid : `${uuid}-${identifierSuffix}`);
}

function throwLoss(error: LostLockError): never {
  throw error;
}

// `holdfast/compat/redlock`: the API of `redlock` 5, with the names of version 4, over a `Locks`.
// https://github.com/mike-marcacci/node-redlock
//
// What it keeps: a lock of `acquire` is not renewed and ends after its duration. `using` renews it.
// What differs is listed in docs/guides/migrating.md.

import { EventEmitter } from "node:events";
import type { Locks, MultiLease } from "../core/api.ts";
import { LockTimeoutError } from "../core/errors.ts";
import type { AcquireOptions } from "../core/options.ts";
import { createLocksFor } from "../create-locks-for.ts";
import { type RedisClient, type RedisNodeClient, redis } from "../stores/redis/index.ts";
import { redlock } from "../stores/redlock/index.ts";

export interface Settings {
  /** Accepted and ignored: the store keeps a key for the `grace` of the `Locks` longer. */
  readonly driftFactor: number;
  /** -1 waits without a limit. The wait is `retryCount` times `retryDelay`. */
  readonly retryCount: number;
  readonly retryDelay: number;
  /** Accepted and ignored: a waiter is woken, and does not poll. */
  readonly retryJitter: number;
  /** Only checked against the duration: `using` renews at a third of it. */
  readonly automaticExtensionThreshold: number;
}

const DEFAULTS: Settings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** What a lease can last, and what a caller of redlock may ask for. */
const SHORTEST_MS = 50;
const LONGEST_MS: number = 7 * 24 * 3_600_000;
/** redlock asks for so much between the threshold and the duration. */
const EXTENSION_ROOM_MS = 100;

/** What redlock tells about the votes of one attempt. Here the store has counted them: it is one member. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<unknown>;
  readonly votesAgainst: Map<unknown, Error>;
}

export interface ExecutionResult {
  readonly attempts: readonly Promise<ExecutionStats>[];
  readonly start: number;
}

/** Another holder has one of the resources. */
export class ResourceLockedError extends Error {
  override readonly name = "ResourceLockedError";
}

/** The operation failed. `cause` is the error of holdfast. */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";
  readonly attempts: readonly Promise<ExecutionStats>[];

  constructor(message: string, attempts: readonly Promise<ExecutionStats>[] = [], cause?: unknown) {
    super(message, { cause });
    this.attempts = attempts;
  }
}

// The name of version 4.
export { ExecutionError as LockError };

export type RedlockAbortSignal = AbortSignal & { error?: Error };

type Routine<T> = (signal: RedlockAbortSignal) => Promise<T>;

export class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  /** The fences of the resources: larger for every later lock. */
  readonly value: string;
  readonly attempts: readonly Promise<ExecutionStats>[];
  /** In ms since the epoch, by the clock of this process. */
  expiration: number;
  /** The lease behind the lock. Not part of redlock. */
  readonly lease: MultiLease;

  constructor(owner: Redlock, resources: string[], lease: MultiLease) {
    this.redlock = owner;
    this.resources = resources;
    this.lease = lease;
    this.value = lease.keys.map((key) => lease.fenceOf(key)).join(",");
    this.attempts = [Promise.resolve(vote(owner))];
    this.expiration = Date.now() + lease.remaining;
  }

  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }

  /** The name of version 4. */
  unlock(): Promise<ExecutionResult> {
    return this.release();
  }
}

/**
 * The API of redlock over holdfast.
 *
 * @example
 * import Redlock from "holdfast/compat/redlock";
 *
 * const redlock = new Redlock([client]);
 * await redlock.using(["order:42"], 5_000, async (signal) => {
 *   if (signal.aborted) throw signal.error;
 * });
 */
export default class Redlock extends EventEmitter {
  readonly settings: Settings;
  readonly clients: Set<unknown>;
  readonly #locks: Locks;
  readonly #isOwn: boolean;

  /** @param clients one client of Redis, one for each of three or more masters, or a `Locks` */
  constructor(clients: Iterable<RedisNodeClient | RedisClient> | Locks, settings: Partial<Settings> = {}) {
    super();
    // redlock emits "error" for what it overcomes, which must not end the process.
    this.on("error", () => {});
    this.settings = { ...DEFAULTS, ...settings };
    this.#isOwn = !isLocks(clients);
    this.clients = new Set<unknown>(isLocks(clients) ? [] : clients);
    this.#locks = isLocks(clients) ? clients : locksOn([...clients]);
  }

  async acquire(
    resources: string | string[],
    duration: number,
    settings: Partial<Settings> = {},
  ): Promise<Lock> {
    const [keys, options] = [namesOf(resources), this.#optionsOf(duration, settings)];
    try {
      return new Lock(this, keys, await this.#locks.acquire(keys, { ...options, renew: false }));
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Rejects where the lock had ended. */
  async release(lock: Lock): Promise<ExecutionResult> {
    const start = Date.now();
    lock.expiration = 0;
    try {
      if (await lock.lease.release()) return { attempts: [Promise.resolve(vote(this))], start };
    } catch (error) {
      throw this.#failed(error);
    }
    throw this.#failed(new Error("the lock had ended before its release"));
  }

  async extend(existing: Lock, duration: number): Promise<Lock> {
    const ttl = ttlOf(duration);
    if (existing.expiration < Date.now()) throw new ExecutionError("Cannot extend an already-expired lock.");
    try {
      await existing.lease.extend(ttl);
    } catch (error) {
      throw this.#failed(error);
    }
    existing.expiration = 0;
    return new Lock(this, existing.resources, existing.lease);
  }

  /** Holds the resources, renewed, until `routine` settles. The signal aborts before the lock ends. */
  using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  using<T>(
    resources: string[],
    duration: number,
    settings: Partial<Settings>,
    routine: Routine<T>,
  ): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    settingsOrRoutine: Partial<Settings> | Routine<T>,
    optionalRoutine?: Routine<T>,
  ): Promise<T> {
    const [settings, routine] =
      typeof settingsOrRoutine === "function"
        ? [{}, settingsOrRoutine]
        : [settingsOrRoutine, optionalRoutine];
    if (typeof routine !== "function") throw new Error("INVARIANT: routine is not a function.");
    const options = this.#optionsOf(duration, settings);
    const { automaticExtensionThreshold: threshold } = { ...this.settings, ...settings };
    if (threshold > duration - EXTENSION_ROOM_MS)
      throw new Error(
        "A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.",
      );
    let lost: AbortSignal | null = null;
    try {
      return await this.#locks.using(namesOf(resources), options, (lease) => {
        lost = lease.signal;
        return routine(this.#signalOf(lease.signal));
      });
    } catch (error) {
      // What the routine throws is passed on, unless the loss of the lock is behind it.
      const signal = lost as AbortSignal | null;
      if (signal !== null && error !== signal.reason) throw error;
      throw this.#failed(error);
    }
  }

  /** The name of version 4. */
  lock(resources: string | string[], duration: number): Promise<Lock> {
    return this.acquire(resources, duration);
  }

  /** The name of version 4. */
  unlock(lock: Lock): Promise<ExecutionResult> {
    return this.release(lock);
  }

  /** Closes what this object has opened, and the clients that it was given, as redlock does. */
  async quit(): Promise<void> {
    if (this.#isOwn) await this.#locks.close();
    const clients = [...this.clients] as { quit?(): Promise<unknown> }[];
    await Promise.all(clients.map(async (client) => client.quit?.()));
  }

  #optionsOf(duration: number, settings: Partial<Settings>): AcquireOptions {
    const { retryCount, retryDelay } = { ...this.settings, ...settings };
    const wait = retryCount < 0 ? Number.POSITIVE_INFINITY : retryCount * retryDelay;
    return { ttl: ttlOf(duration), wait };
  }

  #signalOf(lost: AbortSignal): RedlockAbortSignal {
    const controller = new AbortController();
    const signal: RedlockAbortSignal = controller.signal;
    const abort = (): void => {
      signal.error = this.#failed(lost.reason);
      controller.abort(signal.error);
    };
    if (lost.aborted) abort();
    else lost.addEventListener("abort", abort, { once: true });
    return signal;
  }

  #failed(cause: unknown): ExecutionError {
    const why = cause instanceof Error ? cause : new Error(String(cause));
    const against = cause instanceof LockTimeoutError ? new ResourceLockedError(why.message) : why;
    this.emit("error", against);
    const message = `The operation was unable to achieve a quorum during its retry window. ${why.message}`;
    return new ExecutionError(message, [Promise.resolve(vote(this, against))], cause);
  }
}

function locksOn(clients: readonly (RedisNodeClient | RedisClient)[]): Locks {
  const [first] = clients;
  if (first === undefined) throw new Error("Redlock must be instantiated with at least one redis client.");
  if (clients.length === 1) return createLocksFor(redis({ client: first }));
  return createLocksFor(redlock({ nodes: clients as readonly RedisNodeClient[] }));
}

function isLocks(value: object): value is Locks {
  return typeof (value as Partial<Locks>).tryAcquire === "function";
}

function namesOf(resources: string | string[]): string[] {
  return typeof resources === "string" ? [resources] : resources;
}

function ttlOf(duration: number): number {
  if (Math.floor(duration) !== duration)
    throw new Error("Duration must be an integer value in milliseconds.");
  return Math.min(Math.max(duration, SHORTEST_MS), LONGEST_MS);
}

function vote(owner: Redlock, against?: Error): ExecutionStats {
  const [votesFor, votesAgainst] = [new Set<unknown>(), new Map<unknown, Error>()];
  if (against === undefined) votesFor.add(owner);
  else votesAgainst.set(owner, against);
  return { membershipSize: 1, quorumSize: 1, votesFor, votesAgainst };
}

// The public types of `Locks` and `Lease`. Types only: `locks.ts` and `lease/lease.ts` implement them.

import type { EventMap, EventName } from "./events.ts";
import type { Duration } from "./duration.ts";
import type { Election, Lead } from "./election/election.ts";

import type { AcquireOptions, CloseOptions, ElectOptions, OnceOptions } from "./options.ts";
import type { Finding, Guarantees, LockInfo, Mode } from "./store.ts";

/** One key, or several keys that are acquired together. */
export type Key = string | readonly string[];

/**
 * What `once` resolves with: the result of the callback, or `ran: false` if another replica has the key.
 *
 * @example
 * const outcome = await locks.once("report:daily", { atLeast: "1h" }, buildReport);
 * if (outcome.ran) console.log(outcome.result);
 */
export type OnceResult<T> = { readonly ran: true; readonly result: T } | { readonly ran: false };

/**
 * Several keys that are held together. Each key has a fence of its own, so a `MultiLease` has no `fence`.
 *
 * @example
 * await locks.using(["account:1", "account:2"], async (lease) => {
 *   await transfer({ fence: lease.fenceOf("account:1"), signal: lease.signal });
 * });
 */
export interface MultiLease extends AsyncDisposable {
  /** The first of `keys`. */
  readonly key: string;
  /** All keys, without duplicates and in the order of their UTF-8 bytes. */
  readonly keys: readonly string[];
  /** The `label` of the call that acquired the lease. */
  readonly label: string;
  /** The `mode` of the call that acquired the lease. */
  readonly mode: Mode;
  /**
   * The fencing token of one of the keys.
   *
   * @throws InvalidArgumentError if the lease does not hold `key`.
   */
  fenceOf(key: string): bigint;
  /** Whether the lease is certainly valid. Reads the monotonic clock each time, without asking the store. */
  readonly held: boolean;
  /** For how many more milliseconds the lease is certainly valid. 0 when the lease is lost or released. */
  readonly remaining: number;
  /**
   * Aborts when the lease is lost, at the latest just before its window ends. `signal.reason` is the
   * `LockLostError`. Pass the signal to everything that the lock protects.
   */
  readonly signal: AbortSignal;
  /**
   * Checks the clock, without asking the store.
   *
   * @throws LockLostError unless `held`.
   */
  assertHeld(): void;
  /**
   * Asks the store whether this holder still owns the keys. If not, the lease is marked as lost and the
   * result is `false`.
   *
   * @throws StoreUnavailableError if the store cannot be asked.
   */
  verify(): Promise<boolean>;
  /**
   * Starts the lease again with its full length. Later renewals keep the new ttl.
   *
   * @throws LockLostError if the lease has ended.
   * @example
   * await lease.extend("5m");
   */
  extend(ttl?: Duration): Promise<void>;
  /**
   * Releases the keys. Resolves with `true` if the lease was still held, and with `false` if it had ended.
   * Calling it again has no effect.
   *
   * @throws StoreUnavailableError if the store cannot be reached. The keys then expire with their ttl.
   */
  release(): Promise<boolean>;
  /** Plain data. Fences are decimal strings. */
  toJSON(): Record<string, unknown>;
}

/**
 * A lock that is held. holdfast renews it until it is released, lost, or older than `maxHold`.
 *
 * @example
 * const lease = await locks.acquire("order:42", { ttl: "30s", wait: "5s" });
 * try {
 *   await charge({ signal: lease.signal, fence: lease.fence });
 * } finally {
 *   await lease.release();
 * }
 */
export interface Lease extends MultiLease {
  /** The fencing token: larger for every later grant of the key. It fits a signed 64-bit column. */
  readonly fence: bigint;
}

/** A lock inside a transaction. The commit or rollback ends it, so nothing renews, loses or releases it. */
export type TransactionLease = Pick<
  Lease,
  "key" | "keys" | "label" | "mode" | "fence" | "fenceOf" | "toJSON"
>;

/** Several keys that are locked inside a transaction. Each has its own fence: use `fenceOf`. */
export type MultiTransactionLease = Omit<TransactionLease, "fence">;

/**
 * A client of `pg` or a connection of `mysql2` whose transaction is open, or the `TransactionPort` of an
 * adapter. A pool does not compile: it may run every statement on another connection.
 */
export interface TransactionHandle {
  readonly query: (...args: never[]) => unknown;
  /** Excludes a pool of `pg`, which has this property. */
  readonly totalCount?: never;
  /** Excludes a pool of `mysql2`, which has this method. */
  readonly getConnection?: never;
}

/** Locks inside the caller's own transaction. The commit or rollback of the transaction releases them. */
export interface TransactionLocks {
  /** Waits up to `wait` for the key. Several keys are all acquired or none. */
  acquire(key: string, options?: AcquireOptions): Promise<TransactionLease>;
  acquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiTransactionLease>;
  /** Makes one attempt. Resolves with `null` if the key is busy. */
  tryAcquire(key: string, options?: AcquireOptions): Promise<TransactionLease | null>;
  tryAcquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiTransactionLease | null>;
  /** Acquires the key and runs `fn`. The lock outlives `fn`: it ends with the transaction. */
  using<T>(key: string, fn: (lease: TransactionLease) => T | Promise<T>): Promise<T>;
  using<T>(keys: readonly string[], fn: (lease: MultiTransactionLease) => T | Promise<T>): Promise<T>;
  using<T>(key: string, options: AcquireOptions, fn: (lease: TransactionLease) => T | Promise<T>): Promise<T>;
  using<T>(
    keys: readonly string[],
    options: AcquireOptions,
    fn: (lease: MultiTransactionLease) => T | Promise<T>,
  ): Promise<T>;
}

/**
 * All locks of one store. `createLocks` makes one; a process usually needs only one.
 *
 * @example
 * const locks = createLocks("redis://127.0.0.1:6379");
 * await locks.using("order:42", async (lease) => charge({ signal: lease.signal }));
 * await locks.close();
 */
export interface Locks extends AsyncDisposable {
  /**
   * Waits up to `wait` for the key. Several keys are all acquired or none, in one canonical order.
   *
   * @throws LockTimeoutError if the key is busy for all of `wait`.
   * @throws LockAbortedError if `signal` aborts or the locks are closed.
   * @throws DeadlockError if waiting would never end.
   * @throws StoreUnavailableError if the store cannot be reached.
   * @example
   * const lease = await locks.acquire("order:42", { ttl: "30s", wait: "5s" });
   */
  acquire(key: string, options?: AcquireOptions): Promise<Lease>;
  acquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiLease>;
  /**
   * Makes one attempt without waiting. Resolves with `null` if the key is busy.
   *
   * @throws StoreUnavailableError if the store does not answer within one call timeout.
   * @example
   * const lease = await locks.tryAcquire("order:42");
   * if (lease === null) return;
   */
  tryAcquire(key: string, options?: AcquireOptions): Promise<Lease | null>;
  tryAcquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiLease | null>;
  /**
   * Acquires the key, calls `fn` and releases the key. Resolves with the result of `fn`.
   *
   * @throws LockLostError if the lease was lost while `fn` ran; its `result` is what `fn` returned.
   * @example
   * const receipt = await locks.using("order:42", (lease) => charge({ signal: lease.signal }));
   */
  using<T>(key: string, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  using<T>(keys: readonly string[], fn: (lease: MultiLease) => T | Promise<T>): Promise<T>;
  using<T>(key: string, options: AcquireOptions, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  using<T>(
    keys: readonly string[],
    options: AcquireOptions,
    fn: (lease: MultiLease) => T | Promise<T>,
  ): Promise<T>;
  /**
   * Runs `fn` on one of many replicas. The key stays taken for at least `atLeast` after the grant, even if
   * this process dies. `wait` is 0 unless given.
   *
   * @example
   * await locks.once("report:daily", { atLeast: "1h" }, buildReport);
   */
  once<T>(key: string, options: OnceOptions, fn: (lease: Lease) => T | Promise<T>): Promise<OnceResult<T>>;
  once<T>(
    keys: readonly string[],
    options: OnceOptions,
    fn: (lease: MultiLease) => T | Promise<T>,
  ): Promise<OnceResult<T>>;
  /**
   * Campaigns until the election is closed, and calls `lead` each time this process becomes the leader.
   * Without `lead` the election only observes.
   *
   * @example
   * const election = locks.elect("scheduler", async (lease) => {
   *   while (!lease.signal.aborted) await runDueJobs(lease.signal);
   * });
   */
  elect(name: string, lead?: Lead): Election;
  elect(name: string, options: ElectOptions, lead?: Lead): Election;
  /** Resolves with the holders and waiters of a key, or with `null` if the key is free. */
  inspect(key: string): Promise<LockInfo | null>;
  /**
   * Iterates over every lock that is held or waited for.
   *
   * @example
   * for await (const lock of locks.list({ prefix: "order:" })) console.log(lock.key, lock.holders);
   */
  list(options?: {
    readonly prefix?: string | undefined;
    readonly limit?: number | undefined;
  }): AsyncIterable<LockInfo>;
  /**
   * Takes the key away from its holder. The holder is notified, and the key becomes free when the holder
   * releases it or its window ends. With `force` the key becomes free immediately. Resolves with `false` if
   * the key was free.
   *
   * @throws StaleFenceError if `fence` is given and is not the fence of the holder.
   * @example
   * await locks.revoke("order:42", { reason: "host 7 is being replaced" });
   */
  revoke(
    key: string,
    options: {
      readonly fence?: bigint | undefined;
      readonly reason: string;
      readonly force?: boolean | undefined;
    },
  ): Promise<boolean>;
  /** Resolves with findings about the safety of the store, the same that `holdfast doctor` prints. */
  check(): Promise<readonly Finding[]>;
  /**
   * Locks inside the caller's own SQL transaction. They end with its commit or rollback.
   *
   * @throws UnsupportedError from each call, if the store is not an SQL store.
   * @example
   * const client = await pool.connect();
   * await client.query("BEGIN");
   * await locks.inTransaction(client).acquire("order:42");
   */
  inTransaction(tx: TransactionHandle): TransactionLocks;
  /**
   * Adds a listener and returns a function that removes it. A listener that throws cannot affect a lock.
   *
   * @example
   * const off = locks.on("lost", ({ key, reason }) => console.error(`lost ${key}: ${reason}`));
   */
  on<E extends EventName>(event: E, listener: (event: EventMap[E]) => void): () => void;
  /** What the store promises, as data. Can narrow once holdfast knows the server. */
  readonly guarantees: Guarantees;
  /**
   * Rejects new calls and lets running callbacks finish. When `drain` is over, `lease.signal` aborts for each
   * callback that still runs, its call rejects, and only then holdfast releases its key.
   *
   * @example
   * process.once("SIGTERM", () => void locks.close({ drain: "20s" }));
   */
  close(options?: CloseOptions): Promise<void>;
}

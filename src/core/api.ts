// The public types of `Locks` and `Lease`, as documented. Types only; `locks.ts` and `lease.ts` are the implementation.

import type { EventMap, EventName } from "./events.ts";
import type { Duration } from "./duration.ts";
import type { Election, Lead } from "./election/election.ts";

import type { AcquireOptions, CloseOptions, ElectOptions, OnceOptions } from "./options.ts";
import type { Finding, Guarantees, LockInfo, Mode } from "./store.ts";

export type Key = string | readonly string[];

export type OnceResult<T> = { readonly ran: true; readonly result: T } | { readonly ran: false };

/** Several keys that are held together. Each has its own fence, so there is no `fence`: use `fenceOf`. */
export interface MultiLease extends AsyncDisposable {
  /** The first of `keys`. */
  readonly key: string;
  readonly keys: readonly string[];
  readonly label: string;
  readonly mode: Mode;
  /** The fencing token of one of the keys. */
  fenceOf(key: string): bigint;
  /** True only while the lease is certainly valid, read from the clock each time. */
  readonly held: boolean;
  /** ms of certain validity. */
  readonly remaining: number;
  /** Aborts when the lease is lost, at the latest just before its window ends. */
  readonly signal: AbortSignal;
  /** Throws LockLostError unless `held`. */
  assertHeld(): void;
  /** Asks the store; false also marks it lost. */
  verify(): Promise<boolean>;
  /** Moves the end of the lease. */
  extend(ttl?: Duration): Promise<void>;
  /** Idempotent; false if it had ended before. */
  release(): Promise<boolean>;
  /** Plain data. Fences are decimal strings. */
  toJSON(): Record<string, unknown>;
}

/** A lock that is held, with an honest end. */
export interface Lease extends MultiLease {
  /** The fencing token: larger for every later grant of the key. */
  readonly fence: bigint;
}

/** A lock of a transaction: it ends with the commit or rollback, so there is nothing to renew, to lose or to release. */
export type TransactionLease = Pick<
  Lease,
  "key" | "keys" | "label" | "mode" | "fence" | "fenceOf" | "toJSON"
>;

/** Several keys of a transaction. */
export type MultiTransactionLease = Omit<TransactionLease, "fence">;

/**
 * A client of `pg` or a connection of `mysql2` whose transaction is open, or the `TransactionPort` of an
 * adapter. A pool does not compile: it may run every statement on another connection.
 */
export interface TransactionHandle {
  readonly query: (...args: never[]) => unknown;
  /** A pool of `pg` has it. */
  readonly totalCount?: never;
  /** A pool of `mysql2` has it. */
  readonly getConnection?: never;
}

/** The same calls inside the caller's own transaction. */
export interface TransactionLocks {
  acquire(key: string, options?: AcquireOptions): Promise<TransactionLease>;
  acquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiTransactionLease>;
  tryAcquire(key: string, options?: AcquireOptions): Promise<TransactionLease | null>;
  tryAcquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiTransactionLease | null>;
  /** Acquires and runs `fn`; the lock stays until the transaction ends. */
  using<T>(key: string, fn: (lease: TransactionLease) => T | Promise<T>): Promise<T>;
  using<T>(keys: readonly string[], fn: (lease: MultiTransactionLease) => T | Promise<T>): Promise<T>;
  using<T>(key: string, options: AcquireOptions, fn: (lease: TransactionLease) => T | Promise<T>): Promise<T>;
  using<T>(
    keys: readonly string[],
    options: AcquireOptions,
    fn: (lease: MultiTransactionLease) => T | Promise<T>,
  ): Promise<T>;
}

export interface Locks extends AsyncDisposable {
  /** Waits up to `wait`; several keys are all taken or none. */
  acquire(key: string, options?: AcquireOptions): Promise<Lease>;
  acquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiLease>;
  /** One attempt; null when busy. */
  tryAcquire(key: string, options?: AcquireOptions): Promise<Lease | null>;
  tryAcquire(keys: readonly string[], options?: AcquireOptions): Promise<MultiLease | null>;
  /** Acquire, run, release. */
  using<T>(key: string, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  using<T>(keys: readonly string[], fn: (lease: MultiLease) => T | Promise<T>): Promise<T>;
  using<T>(key: string, options: AcquireOptions, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  using<T>(
    keys: readonly string[],
    options: AcquireOptions,
    fn: (lease: MultiLease) => T | Promise<T>,
  ): Promise<T>;
  /** Runs `fn` on one of many replicas and keeps the key taken for at least `atLeast`. */
  once<T>(key: string, options: OnceOptions, fn: (lease: Lease) => T | Promise<T>): Promise<OnceResult<T>>;
  once<T>(
    keys: readonly string[],
    options: OnceOptions,
    fn: (lease: MultiLease) => T | Promise<T>,
  ): Promise<OnceResult<T>>;
  /** Campaigns until closed and calls `lead` each time this process becomes leader; without `lead` it only observes. */
  elect(name: string, lead?: Lead): Election;
  elect(name: string, options: ElectOptions, lead?: Lead): Election;
  /** Holders and waiters, or null when free. */
  inspect(key: string): Promise<LockInfo | null>;
  list(options?: {
    readonly prefix?: string | undefined;
    readonly limit?: number | undefined;
  }): AsyncIterable<LockInfo>;
  /** Takes the key away from its holder. false when it was free. */
  revoke(
    key: string,
    options: {
      readonly fence?: bigint | undefined;
      readonly reason: string;
      readonly force?: boolean | undefined;
    },
  ): Promise<boolean>;
  check(): Promise<readonly Finding[]>;
  /**
   * SQL stores: locks that are taken in the caller's transaction and end with it.
   *
   * @example
   * const client = await pool.connect();
   * await client.query("BEGIN");
   * await locks.inTransaction(client).acquire("order:42");
   */
  inTransaction(tx: TransactionHandle): TransactionLocks;
  on<E extends EventName>(event: E, listener: (event: EventMap[E]) => void): () => void;
  readonly guarantees: Guarantees;
  /**
   * Refuses new calls and lets running callbacks finish. Callbacks that still run when `drain` is over are
   * told by `lease.signal`, their calls reject, and only then are their keys released. `drain` is 10 seconds
   * by default.
   *
   * @example
   * process.once("SIGTERM", () => void locks.close({ drain: "20s" }));
   */
  close(options?: CloseOptions): Promise<void>;
}

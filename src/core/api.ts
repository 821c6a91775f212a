// The public shape of `Locks`, as documented. Types only; `locks.ts` is the implementation.

import type { EventMap, EventName } from "./events.ts";
import type { Lease } from "./lease.ts";
import type { AcquireOptions, OnceOptions } from "./options.ts";
import type { Finding, Guarantees, LockInfo } from "./store.ts";

export type Key = string | readonly string[];

export type OnceResult<T> = { readonly ran: true; readonly result: T } | { readonly ran: false };

export interface Locks extends AsyncDisposable {
  /** Waits up to `wait`; several keys are all taken or none. */
  acquire(key: Key, options?: AcquireOptions): Promise<Lease>;
  /** One attempt; null when busy. */
  tryAcquire(key: Key, options?: AcquireOptions): Promise<Lease | null>;
  /** Acquire, run, release. */
  using<T>(key: Key, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  using<T>(key: Key, options: AcquireOptions, fn: (lease: Lease) => T | Promise<T>): Promise<T>;
  /** Runs `fn` on one of many replicas and keeps the key taken for at least `atLeast`. */
  once<T>(key: Key, options: OnceOptions, fn: (lease: Lease) => T | Promise<T>): Promise<OnceResult<T>>;
  /** Holders and waiters, or null when free. */
  inspect(key: string): Promise<LockInfo | null>;
  list(options?: { readonly prefix?: string; readonly limit?: number }): AsyncIterable<LockInfo>;
  /** Takes the key away from its holder. false when it was free. */
  revoke(
    key: string,
    options: { readonly fence?: bigint; readonly reason: string; readonly force?: boolean },
  ): Promise<boolean>;
  check(): Promise<readonly Finding[]>;
  on<E extends EventName>(event: E, listener: (event: EventMap[E]) => void): () => void;
  readonly guarantees: Guarantees;
  close(): Promise<void>;
}

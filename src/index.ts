// The public surface. Re-exports only.

export type { Key, Lease, Locks, OnceResult } from "./core/api.ts";
export { type Duration, duration } from "./core/duration.ts";
export {
  DeadlockError,
  type DeadlockStep,
  type HolderSummary,
  InvalidArgumentError,
  LockAbortedError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockTimeoutError,
  type NodeReason,
  QuorumError,
  StaleFenceError,
  StoreUnavailableError,
  UnsafeStoreError,
  UnsupportedError,
} from "./core/errors.ts";
export type { EventMap, EventName, LeaseEvent } from "./core/events.ts";
export type { AcquireOptions, AllowName, LocksOptions, OnceOptions } from "./core/options.ts";
export type {
  Finding,
  Guarantees,
  HolderInfo,
  Kind,
  LockInfo,
  Mode,
  Store,
  WaiterInfo,
} from "./core/store.ts";
export { createLocks } from "./create-locks.ts";

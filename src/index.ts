// The public surface. Re-exports only.

export type { Key, Lease, Locks, OnceResult, TransactionLease, TransactionLocks } from "./core/api.ts";
export { type Duration, duration } from "./core/duration.ts";
export type { Election, Lead, Leader } from "./core/election.ts";
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
  MissingRowError,
  type NodeReason,
  QuorumError,
  StaleFenceError,
  StoreUnavailableError,
  UnsafeStoreError,
  UnsupportedError,
} from "./core/errors.ts";
export type { EventMap, EventName, LeaseEvent } from "./core/events.ts";
export { ALLOW_NAMES } from "./core/options.ts";
export type {
  AcquireOptions,
  AllowName,
  CloseOptions,
  ElectOptions,
  LocksOptions,
  OnceOptions,
} from "./core/options.ts";
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

// What `holdfast` and `holdfast/core` have in common. Re-exports only.

export type {
  Key,
  Lease,
  Locks,
  MultiLease,
  MultiTransactionLease,
  OnceResult,
  TransactionHandle,
  TransactionLease,
  TransactionLocks,
} from "./core/api.ts";
export { type Duration, duration } from "./core/duration.ts";
export type { Election, Lead, Leader } from "./core/election/election.ts";
export {
  type AnyLockError,
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
  QuorumError,
  StaleFenceError,
  StoreUnavailableError,
  UnsafeStoreError,
  UnsupportedError,
} from "./core/errors.ts";
export type { CallEvent, EventMap, EventName, LeaseEvent } from "./core/events.ts";
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
  LossReason,
  Mode,
  NodeReason,
  Store,
  TransactionPort,
  WaiterInfo,
} from "./core/store.ts";

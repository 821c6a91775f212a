// `holdfast/testing`: locks for the tests of an application, and the conformance suite for people who write a
// store, with the types of the contract and a clock that tests move by hand.

export type {
  AttemptAnswer,
  Busy,
  Grant,
  Io,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
} from "../core/store.ts";
export type { Instant, System } from "../core/system.ts";
export type { Case, ChildStore, Level, Need, Server, Subject } from "./case.ts";
export { titleOf } from "./case.ts";
export { allCases } from "./cases/index.ts";
export {
  CASE_MS,
  type Plan,
  planFor,
  runCase,
  type Runner,
  testStore,
  type TestStoreOptions,
} from "./suite.ts";
export { createTestLocks, type TestLocks } from "./test-locks.ts";
export { VirtualSystem, type VirtualSystemOptions, type Warning } from "./virtual-system.ts";

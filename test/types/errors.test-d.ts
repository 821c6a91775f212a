// The types of errors: each class has its code, its fields and its place below LockError. Compiled, never
// run.

import {
  type AnyLockError,
  DeadlockError,
  type DeadlockStep,
  type HolderSummary,
  type InvalidArgumentError,
  type LockAbortedError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockTimeoutError,
  type LossReason,
  type MissingRowError,
  type NodeReason,
  QuorumError,
  StaleFenceError,
  type StoreUnavailableError,
  UnsafeStoreError,
  type UnsupportedError,
} from "holdfast";
import { expectTypeOf } from "vitest";

export function hierarchy(): void {
  expectTypeOf<LockError>().toExtend<Error>();
  expectTypeOf<
    | DeadlockError
    | InvalidArgumentError
    | LockAbortedError
    | LockLostError
    | LockTimeoutError
    | MissingRowError
    | QuorumError
    | StaleFenceError
    | StoreUnavailableError
    | UnsafeStoreError
    | UnsupportedError
  >().toExtend<LockError>();
}

export function codes(error: LockError): string {
  expectTypeOf(error.code).toEqualTypeOf<LockErrorCode>();
  expectTypeOf<string>().not.toExtend<LockErrorCode>();
  // @ts-expect-error: not one of the codes
  if (error.code === "ERR_LOCK_BUSY") return "";
  // A new code makes this switch incomplete, and the function then lacks a return.
  switch (error.code) {
    case "ERR_LOCK_TIMEOUT":
    case "ERR_LOCK_ABORTED":
    case "ERR_LOCK_LOST":
    case "ERR_LOCK_DEADLOCK":
    case "ERR_LOCK_QUORUM":
      return "lock";
    case "ERR_STORE_UNAVAILABLE":
    case "ERR_STORE_UNSAFE":
      return "store";
    case "ERR_FENCE_STALE":
    case "ERR_FENCE_MISSING":
      return "fence";
    case "ERR_LOCK_UNSUPPORTED":
    case "ERR_LOCK_ARGUMENT":
      return "call";
  }
}

export function narrowing(error: unknown): void {
  // @ts-expect-error: unknown until narrowed
  void error.code;
  if (LockError.is(error)) {
    expectTypeOf(error).toEqualTypeOf<AnyLockError>();
    if (error.code === "ERR_LOCK_TIMEOUT") expectTypeOf(error).toEqualTypeOf<LockTimeoutError>();
    // @ts-expect-error: only some errors have holders
    void error.holders;
    expectTypeOf(error.key).toEqualTypeOf<string | undefined>();
    expectTypeOf(error.retryable).toEqualTypeOf<boolean>();
  }
  if (error instanceof LockTimeoutError) {
    expectTypeOf(error.waitedMs).toEqualTypeOf<number>();
    expectTypeOf(error.holders).toEqualTypeOf<readonly HolderSummary[]>();
    expectTypeOf(error.nodes).toEqualTypeOf<readonly NodeReason[]>();
  }
  if (error instanceof LockLostError) {
    expectTypeOf(error.reason).toEqualTypeOf<LossReason>();
    expectTypeOf(error.fence).toEqualTypeOf<bigint | undefined>();
    expectTypeOf(error.result).toEqualTypeOf<unknown>();
  }
  if (error instanceof DeadlockError) expectTypeOf(error.cycle).toEqualTypeOf<readonly DeadlockStep[]>();
  if (error instanceof QuorumError) expectTypeOf(error.nodes).toEqualTypeOf<readonly NodeReason[]>();
  if (error instanceof UnsafeStoreError) expectTypeOf(error.setting).toEqualTypeOf<string>();
  if (error instanceof StaleFenceError) {
    expectTypeOf(error.fence).toEqualTypeOf<bigint>();
    expectTypeOf(error.seen).toEqualTypeOf<bigint>();
  }
}

export function brands(error: unknown): void {
  if (LockTimeoutError.is(error)) expectTypeOf(error).toEqualTypeOf<LockTimeoutError>();
  if (StaleFenceError.is(error)) expectTypeOf(error).toEqualTypeOf<StaleFenceError>();
  expectTypeOf<LockTimeoutError["code"]>().toEqualTypeOf<"ERR_LOCK_TIMEOUT">();
  expectTypeOf<HolderSummary["fence"]>().toEqualTypeOf<bigint>();
  // Every code belongs to one class of the union.
  expectTypeOf<AnyLockError["code"]>().toEqualTypeOf<LockErrorCode>();
}

export function fields(error: LockTimeoutError): void {
  // @ts-expect-error: the code does not change
  error.code = "ERR_LOCK_LOST";
  // @ts-expect-error: a list of holders is not modified
  error.holders.push();
  // @ts-expect-error: a timeout names the time that was waited
  void new LockTimeoutError("busy", { holders: [] });
}

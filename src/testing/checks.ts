// What the cases assert again and again. Every assertion has words of its own: without them the assert
// module reads and parses the source to make some up, which takes minutes on translated code.

import assert from "node:assert/strict";
import { LockError, type LockErrorCode } from "../index.ts";

/** A later grant has a larger fence (P3). */
export function assertLarger(before: bigint, after: bigint): void {
  assert.ok(after > before, `fence ${after} came after ${before}`);
}

/** Asserts that a call rejects with this code, and resolves with its error. */
export async function rejectsWith<E extends LockError>(
  code: LockErrorCode,
  work: Promise<unknown>,
): Promise<E> {
  const error: unknown = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.notEqual(error, null, `it should have failed with ${code}`);
  assert.ok(LockError.is(error), `it failed with ${String(error)}, which is not a LockError`);
  assert.equal(error.code, code, error.message);
  return error as E;
}

/** Asserts that a value is not null or undefined, and returns it. */
export function required<T>(value: T | null | undefined, what: string): T {
  assert.ok(value !== null && value !== undefined, `${what} is missing`);
  return value;
}

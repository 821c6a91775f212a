// The types of `holdfast/testing` for applications. The compiler checks this file in `npm run check`; nothing
// runs it. A call under `@ts-expect-error` must not compile.

import type { Lease, Locks, LocksOptions } from "holdfast";
import { createTestLocks, type TestLocks } from "holdfast/testing";
import { expectTypeOf } from "vitest";

declare const locks: TestLocks;

export function testLocks(): void {
  expectTypeOf<TestLocks>().toExtend<Locks>();
  expectTypeOf<Locks>().not.toExtend<TestLocks>();
  expectTypeOf(createTestLocks).parameters.toEqualTypeOf<[options?: LocksOptions | undefined]>();
  expectTypeOf(createTestLocks).returns.toEqualTypeOf<TestLocks>();
  expectTypeOf(locks.acquire("k")).toEqualTypeOf<Promise<Lease>>();
  expectTypeOf(locks.advance).toEqualTypeOf<(ms: number) => Promise<void>>();
  expectTypeOf(locks.lose).toEqualTypeOf<(key: string) => void>();
  expectTypeOf(locks.busy).toEqualTypeOf<(key: string, by?: string) => () => void>();
  expectTypeOf(locks.storeDown).toEqualTypeOf<() => () => void>();
  // @ts-expect-error a number of ms, not a duration
  void locks.advance("5s");
  // @ts-expect-error one key at a time
  locks.lose(["a", "b"]);
  // @ts-expect-error it has options of createLocks only
  createTestLocks({ url: "memory:" });
}

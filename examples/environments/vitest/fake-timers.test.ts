import { LockTimeoutError } from "holdfast";
import { createTestLocks } from "holdfast/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("locks for tests have a clock of their own", async () => {
  const locks = createTestLocks();
  const rung = vi.fn();
  setTimeout(rung, 1_000);
  locks.busy("order:42");
  const rejected = expect(locks.acquire("order:42", { wait: "5s" })).rejects.toThrow(LockTimeoutError);
  await locks.advance(5_000);
  await rejected;
  expect(rung).not.toHaveBeenCalled();
  const lease = await locks.acquire("order:43");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(rung).toHaveBeenCalledTimes(1);
  expect(lease.held).toBe(true);
  await locks.close();
});

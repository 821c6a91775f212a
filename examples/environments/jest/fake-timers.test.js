const { LockTimeoutError } = require("holdfast");
const { createTestLocks } = require("holdfast/testing");

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test("locks for tests have a clock of their own", async () => {
  const locks = createTestLocks();
  const rung = jest.fn();
  setTimeout(rung, 1_000);
  locks.busy("order:42");
  const rejected = expect(locks.acquire("order:42", { wait: "5s" })).rejects.toThrow(LockTimeoutError);
  await locks.advance(5_000);
  await rejected;
  expect(rung).not.toHaveBeenCalled();
  const lease = await locks.acquire("order:43");
  await jest.advanceTimersByTimeAsync(60_000);
  expect(rung).toHaveBeenCalledTimes(1);
  expect(lease.held).toBe(true);
  await locks.close();
});

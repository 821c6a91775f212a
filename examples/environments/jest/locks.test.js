const { createLocks, LockError } = require("holdfast");
const { memory } = require("holdfast/memory");

test("one holder at a time", async () => {
  const locks = createLocks(memory());
  const lease = await locks.acquire("order:42");
  expect(await locks.tryAcquire("order:42")).toBeNull();
  expect(await lease.release()).toBe(true);
  await locks.close();
});

test("a client that is not installed", async () => {
  const locks = createLocks("postgres://127.0.0.1:1/db");
  const refused = await locks.acquire("order:42").catch((error) => error);
  expect(LockError.is(refused)).toBe(true);
  expect(refused.message).toMatch("npm i pg");
  await locks.close();
});

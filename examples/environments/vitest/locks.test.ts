import { expect, test } from "vitest";
import { createLocks, type Lease, LockError } from "holdfast";
import { memory } from "holdfast/memory";

test("one holder at a time", async () => {
  const locks = createLocks(memory());
  const lease: Lease = await locks.acquire("order:42");
  expect(await locks.tryAcquire("order:42")).toBeNull();
  expect(await lease.release()).toBe(true);
  await locks.close();
});

test("a client that is not installed", async () => {
  const locks = createLocks("postgres://127.0.0.1:1/db");
  const refused: unknown = await locks.acquire("order:42").catch((error: unknown) => error);
  expect(LockError.is(refused) && refused.message).toMatch("npm i pg");
  await locks.close();
});

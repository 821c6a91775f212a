// Very many waiters in one process: there is no cap, they cost the store one waiter, and all of them are told
// when it ends.

import { afterAll, beforeAll, expect, it } from "vitest";
import { createLocks, type Locks } from "../../../src/index.ts";
import { freshDir } from "./fixture.ts";

const USUAL = 20_000;
/** More by command: HOLDFAST_WAITERS=100000 npx vitest run test/stores/local/flood.test.ts. */
const WAITERS = Number(process.env["HOLDFAST_WAITERS"] ?? USUAL);
let dir: ReturnType<typeof freshDir>;
let one: Locks;
let other: Locks;

beforeAll(() => {
  dir = freshDir();
  [one, other] = [createLocks(`local:${dir.path}`), createLocks(`local:${dir.path}`)];
});

afterAll(async () => {
  await Promise.all([one.close(), other.close()]);
  dir.remove();
});

it("a flood of waiters is one waiter for the store, and close rejects all of them (P13, P16)", async () => {
  const lease = await other.acquire("hot");
  const before = process.memoryUsage().heapUsed;
  const startMs = performance.now();
  const codes = new Map<string, number>();
  const waits = Array.from({ length: WAITERS }, () =>
    one.acquire("hot", { wait: Number.POSITIVE_INFINITY }).then(
      () => codes.set("granted", 1),
      (error: { code: string }) => codes.set(error.code, (codes.get(error.code) ?? 0) + 1),
    ),
  );
  await expect.poll(async () => (await other.inspect("hot"))?.waiters?.length).toBe(1);
  const each = (process.memoryUsage().heapUsed - before) / WAITERS;
  expect(await one.using("cold", (cold) => cold.held)).toBe(true);
  await one.close();
  await Promise.all(waits);
  console.log(
    `${WAITERS} waiters: ${Math.round(each)} bytes each, ${Math.round(performance.now() - startMs)} ms`,
  );
  expect(codes).toEqual(new Map([["ERR_LOCK_ABORTED", WAITERS]]));
  expect(await lease.release()).toBe(true);
});

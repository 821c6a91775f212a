// Leases that nobody releases: reported when their handle is collected, released when the process ends by
// itself.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { within, world } from "../fixture.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("a lease whose handle was garbage-collected is reported once, and goes on being held", async () => {
  const { system, locks, others } = world();
  const mine = locks({ ttl: 600 });
  const kept = await mine.acquire("kept");
  const forget = async (): Promise<AbortSignal> => (await mine.acquire("forgotten")).signal;
  const signal = await forget();
  await system.advance(1_100);
  await expect.poll(() => (collectGarbage(), system.warnings.length), { timeout: 60_000 }).toBe(1);
  expect(system.warnings[0]?.message).toContain('"forgotten" was garbage-collected');
  await system.advance(5_000);
  collectGarbage();
  await system.settle();
  expect({ warnings: system.warnings.length, kept: kept.held }).toEqual({ warnings: 1, kept: true });
  expect(await others().tryAcquire("forgotten")).toBeNull();
  const closing = mine.close({ drain: 0 });
  expect(signal.aborted).toBe(true);
  await within(system, 100, closing);
});

test("leases that were garbage-collected together are reported together", async () => {
  const { system, locks } = world();
  const mine = locks({ ttl: 600 });
  const forget = async (): Promise<number> => {
    const leases = await Promise.all(Array.from({ length: 500 }, (_, i) => mine.acquire(`k${i}`)));
    return leases.length;
  };
  expect(await forget()).toBe(500);
  await system.advance(1_100);
  // The collector may take them in a few steps.
  const reported = (): number =>
    system.warnings.reduce(
      (sum, { message }) => sum + Number(/like (\d+) others/.exec(message)?.[1] ?? 0) + 1,
      0,
    );
  await expect.poll(() => (collectGarbage(), system.settle(), reported()), { timeout: 60_000 }).toBe(500);
  expect(system.warnings.length).toBeLessThan(10);
  await within(system, 100, mine.close({ drain: 0 }));
});

test("released leases are not reported, and nothing is watched while there are none", async () => {
  const { system, locks } = world();
  const mine = locks();
  for (let i = 0; i < 20; i += 1) await (await mine.acquire(`k${i}`)).release();
  const lease = await mine.acquire("long");
  await system.advance(1_100);
  await lease.release();
  await system.advance(2_000);
  for (let i = 0; i < 5; i += 1) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(system.warnings).toEqual([]);
  expect(system.exitListeners.size).toBe(0);
});

test("leases are released when the process ends by itself; their holders are notified (P16)", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const lease = await mine.acquire("k");
  expect(system.exitListeners.size).toBe(1);
  for (const listener of system.exitListeners) listener();
  expect(lease.signal.reason).toMatchObject({ reason: "closed" });
  await system.settle();
  expect(lease.held).toBe(false);
  expect(await others().inspect("k")).toBeNull();
  await within(system, 100, mine.close());
  expect(system.exitListeners.size).toBe(0);
});

test("a handle can be named by within", async () => {
  const { locks } = world();
  const mine = locks();
  const lease = await mine.acquire("k");
  const inner = await mine.acquire("k", { within: lease, reentrant: true });
  expect(inner.fence).toBe(lease.fence);
});

// Opening counts under `wait`, and is retried within it.

import { expect, test } from "vitest";
import { StoreUnavailableError, UnsafeStoreError } from "./errors.ts";
import { refusal, within, world } from "./fixture.ts";
import { HoldfastLocks } from "./locks.ts";
import { readLocksOptions } from "./options.ts";
import type { OpenStore, Store } from "./store.ts";
import type { VirtualSystem } from "../testing/virtual-system.ts";

interface Opened {
  readonly system: VirtualSystem;
  readonly locks: HoldfastLocks;
  /** How often the store was opened. */
  count(): number;
}

function opening(how: (times: number, open: () => Promise<OpenStore>) => Promise<OpenStore>): Opened {
  const { system, store } = world();
  let times = 0;
  const wrapped: Store = {
    ...store,
    open(env) {
      times += 1;
      return how(times, () => store.open(env));
    },
  };
  const locks = new HoldfastLocks(wrapped, system, readLocksOptions({}, "me"));
  return { system, locks, count: () => times };
}

const reset = (): Promise<never> =>
  Promise.reject(new StoreUnavailableError("the connection was reset", { disconnected: true }));

test("a short wait on a store that never opens ends within one call timeout (P13)", async () => {
  const { system, locks } = opening(() => new Promise(() => {}));
  const startedMs = system.monoMs();
  const failed = refusal(locks.acquire("k", { wait: "500ms" }));
  expect(await within(system, 10_000, failed)).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  expect(system.monoMs() - startedMs).toBeLessThanOrEqual(2_500);
});

test("a long wait on a store that never opens ends with the wait (P13)", async () => {
  const { system, locks, count } = opening(() => new Promise(() => {}));
  const startedMs = system.monoMs();
  const failed = refusal(locks.acquire("k", { wait: "30s" }));
  const error = await within(system, 60_000, failed);
  expect(error).toMatchObject({ code: "ERR_STORE_UNAVAILABLE", key: "k" });
  expect(error.message).toContain("because the store failed");
  expect(system.monoMs() - startedMs).toBeGreaterThan(29_000);
  expect(system.monoMs() - startedMs).toBeLessThanOrEqual(32_000);
  expect(count()).toBeGreaterThan(3);
});

test("an opening that fails is retried while the wait lasts, with growing pauses", async () => {
  const { system, locks, count } = opening((times, open) => (times < 8 ? reset() : open()));
  const lease = await within(system, 10_000, locks.acquire("k", { wait: "10s" }));
  expect(lease.held).toBe(true);
  expect(count()).toBe(8);
  expect(system.monoMs()).toBeGreaterThan(1_000);
  await within(system, 30_000, locks.close({ drain: 0 }));
});

test("tryAcquire and wait: 0 give up after a call timeout, and the next call joins the opening", async () => {
  const { system, locks, count } = opening(async (_times, open) => {
    await new Promise<void>((resolve) => system.after(3_000, resolve));
    return open();
  });
  const startedMs = system.monoMs();
  const once = refusal(locks.acquire("k", { wait: 0 }));
  const error = await within(system, 10_000, refusal(locks.tryAcquire("k")));
  expect(error).toMatchObject({ code: "ERR_STORE_UNAVAILABLE", retryable: true });
  expect(await once).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  expect(system.monoMs() - startedMs).toBeLessThanOrEqual(2_100);
  expect(await within(system, 2_000, locks.tryAcquire("k"))).toMatchObject({ held: true });
  expect(count()).toBe(1);
  await within(system, 30_000, locks.close({ drain: 0 }));
});

test("an opening that is ready when a blocked event loop goes on counts as in time", async () => {
  const { system, locks } = opening(async (_times, open) => {
    await new Promise<void>((resolve) => system.after(100, resolve));
    // A store answers after the timers of that turn, as a socket does.
    await new Promise<void>((resolve) => system.after(1, resolve));
    return open();
  });
  const tried = locks.tryAcquire("k");
  await system.advance(50);
  system.stall(10_000);
  expect(await within(system, 1_000, tried)).toMatchObject({ held: true });
  await within(system, 30_000, locks.close({ drain: 0 }));
});

test("what no retry can mend fails at once", async () => {
  const { locks, count } = opening(() =>
    Promise.reject(new UnsafeStoreError("it evicts", { setting: "maxmemory-policy", fix: "set it" })),
  );
  expect(await refusal(locks.acquire("k", { wait: "30s" }))).toMatchObject({ code: "ERR_STORE_UNSAFE" });
  expect(count()).toBe(1);
});

test("a signal ends the retries, and so does close()", async () => {
  const { system, locks } = opening(reset);
  const controller = new AbortController();
  const aborted = refusal(locks.acquire("k", { wait: "30s", signal: controller.signal }));
  const closed = refusal(locks.acquire("k", { wait: "30s" }));
  await system.advance(3_000);
  controller.abort();
  expect(await within(system, 1, aborted)).toMatchObject({ code: "ERR_LOCK_ABORTED" });
  await within(system, 30_000, locks.close({ drain: 0 }));
  expect(await within(system, 2_000, closed)).toMatchObject({ code: "ERR_LOCK_ABORTED" });
  await system.advance(2_000);
  expect(system.pendingTimers({ background: true })).toBe(0);
});

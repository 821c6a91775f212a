// What is abandoned is told to the store until it has acknowledged it. An outage of any length costs
// bounded memory and bounded work, and its end causes no burst (P20).

import { expect, test } from "vitest";
import { Abandonment } from "./abandonment.ts";
import { Caller } from "../util/store-call.ts";
import { refusal, world } from "../fixture.ts";
import type { OpenStore, Request } from "../store.ts";
import { memoryGuarantees } from "../../stores/memory/guarantees.ts";
import { VirtualSystem } from "../../testing/virtual-system.ts";

const LARGEST_BATCH = 100;
const MOST_PENDING = 10_000;

/** A store that only knows how to abandon, and what it was asked. */
function sweep(abandon: (requests: readonly Request[], call: number) => Promise<readonly Request[]>): {
  readonly system: VirtualSystem;
  readonly abandonment: Abandonment;
  readonly calls: { readonly atMs: number; readonly ids: readonly string[] }[];
  readonly forgotten: string[];
} {
  const system = new VirtualSystem({ seed: 1 });
  const calls: { readonly atMs: number; readonly ids: readonly string[] }[] = [];
  const forgotten: string[] = [];
  const store = {
    guarantees: memoryGuarantees,
    abandon(requests: readonly Request[]) {
      calls.push({ atMs: system.monoMs(), ids: requests.map(({ id }) => id) });
      return abandon(requests, calls.length);
    },
    forget: ({ id }: Request) => void forgotten.push(id),
  };
  const abandonment = new Abandonment(store as never as OpenStore, new Caller(system), system);
  return { system, abandonment, calls, forgotten };
}

function request(id: string, ttlMs = 30_000): Request {
  const plain = {
    mode: "exclusive",
    permits: 1,
    limit: 1,
    graceMs: 1_000,
    keepMs: 0,
    reservedFences: 0,
  } as const;
  return { ...plain, keys: [id], id, seq: 1, ttlMs, label: "me", actor: "me", queue: false };
}

const down = (): Promise<never> => Promise.reject(new Error("the store is down"));

test("an attempt that was certainly not sent is not abandoned", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", "unsent");
  for (let i = 0; i < 10; i += 1) await refusal(mine.tryAcquire("k"));
  const waited = refusal(mine.acquire("k", { wait: "1s" }));
  await system.advance(5_000);
  expect(await waited).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  expect(door.count("attempt")).toBeGreaterThan(11);
  expect(door.count("abandon")).toBe(0);
});

test("a waiter is abandoned if one of its attempts may have been sent, although the last was not", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", "lose-reply");
  const waited = refusal(mine.acquire("k", { wait: "5s" }));
  await system.advance(2_500);
  door.faults.set("attempt", "unsent");
  await system.advance(5_000);
  expect(await waited).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  door.faults.clear();
  await system.advance(10_000);
  expect(door.count("abandon")).toBeGreaterThan(0);
  expect(await mine.inspect("k")).toBeNull();
});

test("a repeated call is not taken for unsent because its last try was", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", { disconnect: "after", times: 1 });
  const failed = refusal(mine.tryAcquire("k"));
  await system.settle();
  door.faults.set("attempt", "unsent");
  await system.advance(3_000);
  expect(await failed).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  expect(door.count("abandon")).toBe(1);
  expect(await mine.inspect("k")).toBeNull();
});

test("half a minute without answers, under load, leaves few calls, few ids and one timer (P20)", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  await mine.tryAcquire("first");
  const timers = system.pendingTimers({ background: true });
  door.faults.set("attempt", "lose-reply");
  for (const method of ["abandon", "renew"] as const) door.faults.set(method, "hang");
  let [failed, pending] = [0, 0];
  for (let atMs = 0; atMs < 30_000; atMs += 100) {
    for (let i = 0; i < 10; i += 1) {
      pending += 1;
      mine.tryAcquire(`${atMs}:${i}`).catch(() => {
        failed += 1;
        pending -= 1;
      });
    }
    await system.advance(100);
  }
  await system.advance(5_000);
  expect([failed, pending]).toEqual([3_000, 0]);
  // 200 until the first of them have timed out, 100 more until the store counts as silent, then two per
  // second.
  expect(door.count("attempt")).toBeLessThan(450);
  expect(door.count("abandon")).toBeLessThan(30);
  expect(system.pendingTimers({ background: true })).toBeLessThan(timers + 3);
  const before = door.count("abandon");
  door.faults.clear();
  await system.advance(15_000);
  // Everything is told, in full batches, and nothing of what was granted meanwhile stays.
  expect(door.count("abandon") - before).toBeLessThan(15);
  for await (const info of mine.list()) expect(info.key).toBe("first");
});

test("a store that answers again gets the pending ids at once, in paced batches (P20)", async () => {
  let isDown = true;
  const { system, abandonment, calls } = sweep(() => (isDown ? down() : Promise.resolve([])));
  for (let i = 0; i < 5_000; i += 1) abandonment.add(request(`id ${i}`));
  await system.advance(60_000);
  expect(calls.length).toBeLessThan(25);
  isDown = false;
  const fromMs = system.monoMs();
  await system.advance(12_000);
  expect(abandonment.size).toBe(0);
  const later = calls.filter(({ atMs }) => atMs >= fromMs);
  expect(later).toHaveLength(5_000 / LARGEST_BATCH);
  for (const { atMs } of later) {
    const second = later.filter((call) => call.atMs >= atMs && call.atMs < atMs + 1_000);
    expect(second.length).toBeLessThanOrEqual(20);
  }
  expect(system.pendingTimers({ background: true })).toBe(0);
});

test("an answer to anybody ends the pause after a failure", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", "lose-reply");
  door.faults.set("abandon", "fail");
  const failed = refusal(mine.tryAcquire("k"));
  await system.advance(60_000);
  expect(await failed).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  door.faults.clear();
  expect(await mine.inspect("other")).toBeNull();
  await system.settle();
  expect(await mine.inspect("k")).toBeNull();
});

test("never more than 10,000 ids are pending, and those whose leases end first make room (P20)", () => {
  const { abandonment, forgotten } = sweep(() => new Promise(() => {}));
  // The first batch is under way and stays.
  for (let i = 0; i < MOST_PENDING; i += 1) abandonment.add(request(`id ${i}`, 60_000 - i));
  for (let i = 0; i < 500; i += 1) abandonment.add(request(`later ${i}`, 90_000));
  expect(abandonment.size).toBe(MOST_PENDING);
  expect(forgotten).toEqual(Array.from({ length: 500 }, (_, i) => `id ${MOST_PENDING - 1 - i}`));
});

test("a damaged record harms no other id, and is dropped when its lease is over", async () => {
  const damaged = (requests: readonly Request[]): Promise<readonly Request[]> =>
    Promise.resolve(requests.filter(({ id }) => id === "damaged"));
  const { system, abandonment, calls, forgotten } = sweep(damaged);
  for (const id of ["first", "second", "damaged", "third"]) abandonment.add(request(id));
  await system.settle();
  expect(abandonment.size).toBe(1);
  await system.advance(60_000);
  expect(abandonment.size).toBe(0);
  expect(forgotten).toEqual(["damaged"]);
  const told = calls.flatMap(({ ids }) => ids);
  for (const id of ["first", "second", "third"]) expect(told.filter((one) => one === id)).toHaveLength(1);
  expect(told.filter((one) => one === "damaged").length).toBeLessThan(20);
});

test("a key that is refused for good does not fill the memory of whoever goes on trying", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", "refuse");
  door.faults.set("abandon", "refuse");
  for (let i = 0; i < 100; i += 1)
    expect(await refusal(mine.acquire("k", { ttl: 1_000 }))).toMatchObject({ code: "ERR_STORE_UNSAFE" });
  await system.advance(60_000);
  const told = door.count("abandon");
  expect(told).toBeGreaterThan(1);
  await system.advance(600_000);
  expect(door.count("abandon")).toBe(told);
  expect(system.pendingTimers({ background: true })).toBe(0);
});

test("an id that may be acknowledged later is told until then, however long the outage (P8)", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", "lose-reply");
  door.faults.set("abandon", "fail");
  const failed = refusal(mine.acquire("k", { ttl: 1_000, wait: 500 }));
  await system.advance(5_000);
  expect(await failed).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  await system.advance(3_600_000);
  const told = door.count("abandon");
  await system.advance(60_000);
  expect(door.count("abandon")).toBeGreaterThan(told);
});

// A call whose connection ends before the reply: core repeats it within its timeout, and never guesses what
// became of it.

import { expect, test } from "vitest";
import { nodeSystem } from "../../system/node.ts";
import { Caller } from "./store-call.ts";
import { refusal, within, world } from "../fixture.ts";

const ENDS = ["before", "after"] as const;

for (const disconnect of ENDS) {
  test(`repeats calls when the connection ends ${disconnect} the call is carried out`, async () => {
    const { door, system, locks } = world();
    const mine = locks();
    door.faults.set("attempt", { disconnect, times: 2 });
    const lease = await within(system, 2_000, mine.tryAcquire("k"));
    expect(lease?.held).toBe(true);
    door.faults.set("owns", { disconnect, times: 2 });
    expect(await within(system, 2_000, lease?.verify() ?? Promise.resolve(false))).toBe(true);
    door.faults.set("renew", { disconnect, times: 2 });
    await within(system, 2_000, lease?.extend() ?? Promise.reject(new Error("no lease")));
    door.faults.set("inspect", { disconnect, times: 2 });
    expect((await within(system, 5_000, mine.inspect("k")))?.holders.length).toBe(1);
    expect(door.count("attempt")).toBe(3);
  });
}

test("a release whose connection ended before it was carried out is repeated", async () => {
  const { door, system, locks } = world();
  const lease = await locks().acquire("k");
  door.faults.set("release", { disconnect: "before", times: 1 });
  expect(await within(system, 2_000, lease.release())).toBe(true);
});

test("a release that may have been the first of two stays unknown (P8)", async () => {
  const { door, system, locks, others } = world();
  const lease = await locks().acquire("k");
  door.faults.set("release", { disconnect: "after", times: 1 });
  expect(await refusal(within(system, 2_000, lease.release()))).toMatchObject({
    code: "ERR_STORE_UNAVAILABLE",
    message: expect.stringContaining("could not be confirmed") as string,
  });
  expect((await within(system, 2_000, others().acquire("k"))).held).toBe(true);
});

test('a tryAcquire answered "busy" after its connection ended stays unknown (P8)', async () => {
  const { door, system, locks, others } = world();
  await others().acquire("k", { ttl: 60_000 });
  door.faults.set("attempt", { disconnect: "before", times: 1 });
  expect(await refusal(within(system, 2_000, locks().tryAcquire("k")))).toMatchObject({
    code: "ERR_STORE_UNAVAILABLE",
    message: "the connection was reset",
  });
  await system.advance(100);
  expect(door.count("abandon")).toBe(1);
});

test("a store without a connection rejects with its own error within the timeout (P13, P17)", async () => {
  const { door, system, locks } = world();
  const lease = await locks().acquire("k", { ttl: 60_000 });
  door.faults.set("owns", { disconnect: "before", times: Number.POSITIVE_INFINITY });
  const sinceMs = system.monoMs();
  expect(await refusal(within(system, 5_000, lease.verify()))).toMatchObject({
    message: "the connection was reset",
  });
  expect(system.monoMs() - sinceMs).toBeLessThan(2_000);
});

test("the requests of a batch listen to one signal without a warning", async () => {
  const warnings: Error[] = [];
  const listener = (warning: Error): number => warnings.push(warning);
  process.on("warning", listener);
  const { signal } = new Caller(nodeSystem).io("renewal", 100);
  for (let at = 0; at < 100; at += 1) signal.addEventListener("abort", () => {});
  await nodeSystem.yield();
  process.off("warning", listener);
  expect(warnings).toEqual([]);
});

test("an event loop that is blocked again and again postpones a timeout only once (P13, P20)", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  await mine.tryAcquire("first");
  door.faults.set("attempt", "hang");
  const failed = refusal(mine.tryAcquire("k"));
  let isSettled = false;
  void failed.then(() => (isSettled = true));
  await system.advance(1);
  for (let blocks = 0; blocks < 40; blocks += 1) {
    system.stall(300);
    await system.advance(1);
  }
  expect(isSettled).toBe(true);
});

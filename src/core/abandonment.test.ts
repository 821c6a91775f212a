// What is abandoned is told to the store until it has acknowledged it, or until it has refused for good and the lease would be over.

import { expect, test } from "vitest";
import { refusal, world } from "./fixture.ts";

test("a key that is refused for good does not fill the memory of whoever goes on trying", async () => {
  const { door, system, locks } = world();
  const mine = locks();
  door.faults.set("attempt", "refuse");
  door.faults.set("abandon", "refuse");
  for (let i = 0; i < 100; i += 1)
    expect(await refusal(mine.acquire("k", { ttl: 1_000 }))).toMatchObject({ code: "ERR_STORE_UNSAFE" });
  await system.advance(60_000);
  const told = door.count("abandon");
  expect(told).toBeGreaterThan(100);
  await system.advance(600_000);
  expect(door.count("abandon")).toBe(told);
  expect(system.pendingTimers({ background: true })).toBe(0);
});

test("one that may be acknowledged later is told for ever (P8)", async () => {
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

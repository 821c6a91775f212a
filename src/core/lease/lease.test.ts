import { expect, test } from "vitest";
import { LockLostError } from "../errors.ts";
import { refusal, within, world } from "../fixture.ts";
import type { HeldLease } from "./lease.ts";
import { LeaseHandle } from "./lease-handle.ts";

test("held is false in the very tick after a stall past the ttl, and stays false (P7)", async () => {
  const { system, locks } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  expect(lease.held).toBe(true);
  system.stall(3_000);
  expect(lease.held).toBe(false);
  expect(lease.remaining).toBe(0);
  expect(() => lease.assertHeld()).toThrow(LockLostError);
  await system.advance(10_000);
  expect(lease.held).toBe(false);
});

test("the signal aborts before the window ends while the store hangs (P7)", async () => {
  const { system, door, locks } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  const aborted: number[] = [];
  lease.signal.addEventListener("abort", () => aborted.push(system.monoMs()));
  const start = system.monoMs();
  door.faults.set("renew", "hang");
  door.faults.set("abandon", "hang");
  await system.advance(1_000);
  expect(aborted).toHaveLength(1);
  expect((aborted[0] as number) - start).toBeLessThan(1_000);
  expect((aborted[0] as number) - start).toBeGreaterThan(900);
  expect(lease.signal.reason).toBeInstanceOf(LockLostError);
});

test("a lease is renewed for as long as it is held", async () => {
  const { system, locks, others } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  await system.advance(60_000);
  expect(lease.held).toBe(true);
  expect(await others().tryAcquire("k")).toBeNull();
});

test("a lease without renewal ends with its ttl, not before (P2)", async () => {
  const { system, locks } = world();
  const lease = await locks().acquire("k", { ttl: "1s", renew: false });
  await system.advance(970);
  expect(lease.held).toBe(true);
  await system.advance(30);
  expect(lease.held).toBe(false);
});

test("renewal stops at maxHold and the lease ends there", async () => {
  const { system, locks } = world();
  const mine = locks();
  const reasons: string[] = [];
  mine.on("lost", (event) => reasons.push(event.reason));
  const lease = await mine.acquire("k", { ttl: "1s", maxHold: "5s" });
  await system.advance(4_900);
  expect(lease.held).toBe(true);
  await system.advance(100);
  expect(lease.held).toBe(false);
  expect(reasons).toEqual(["max-hold"]);
});

test("after a loss no late renewal revives the lease, and the store is told until it knows (P6)", async () => {
  const { system, door, locks, others } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  door.faults.set("renew", { replyAfterMs: 1_500 });
  door.faults.set("abandon", "fail");
  await system.advance(1_000);
  expect(lease.held).toBe(false);
  await system.advance(1_500);
  expect(lease.held).toBe(false);
  expect(door.count("abandon")).toBeGreaterThan(1);
  door.faults.clear();
  const next = await within(system, 8_000, others().acquire("k"));
  expect(next.fence).toBeGreaterThan(lease.fence);
});

test("an answer that arrives after its own window is not a grant (P2)", async () => {
  const { system, door, locks } = world({ clock: "store" });
  door.faults.set("attempt", { replyAfterMs: 5 });
  const acquired = locks().acquire("k", { ttl: "1s", wait: "5s" });
  await system.settle();
  system.suspend(5_000);
  door.faults.clear();
  const lease = await within(system, 5_000, acquired);
  expect(lease.held).toBe(true);
  expect(door.count("attempt")).toBeGreaterThan(1);
});

test.each([
  ["suspend", (system: { suspend(ms: number): void }) => system.suspend(2_000)],
  ["a wall clock set forward", (system: { jumpWall(ms: number): void }) => system.jumpWall(2_000)],
])("elapsed time is what the fastest clock says: %s (P2)", async (_name, disturb) => {
  const { system, locks } = world({ clock: "store" });
  const lease = await locks().acquire("k", { ttl: "1s" });
  disturb(system);
  expect(lease.held).toBe(false);
});

test("a wall clock set back does not lengthen the window (P2)", async () => {
  const { system, door, locks } = world({ clock: "store" });
  const lease = await locks().acquire("k", { ttl: "1s" });
  door.faults.set("renew", "fail");
  system.jumpWall(-3_600_000);
  await system.advance(1_000);
  expect(lease.held).toBe(false);
});

test("a store on this machine's own clock ignores the calendar", async () => {
  const { system, locks } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  system.jumpWall(3_600_000);
  expect(lease.held).toBe(true);
});

test("endangered is told when a quarter of the window is left, once per danger", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const told: number[] = [];
  const start = system.monoMs();
  mine.on("endangered", () => told.push(system.monoMs() - start));
  await mine.acquire("k", { ttl: "1s" });
  door.faults.set("renew", "fail");
  await system.advance(1_000);
  expect(told).toHaveLength(1);
  expect(told[0]).toBeGreaterThanOrEqual(740);
  expect(told[0]).toBeLessThan(800);
});

test("release is idempotent, and false once the lease had ended (P5)", async () => {
  const { system, locks } = world();
  const mine = locks();
  const lease = await mine.acquire("k", { ttl: "1s" });
  expect(await lease.release()).toBe(true);
  expect(await lease.release()).toBe(true);
  const lost = await mine.acquire("k", { ttl: "1s", renew: false });
  system.stall(5_000);
  expect(await lost.release()).toBe(false);
});

test("a release that the store does not answer rejects by name, and the key ends all the same", async () => {
  const { system, door, locks, others } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  door.faults.set("release", "hang");
  const error = await refusal(within(system, 3_000, lease.release()));
  expect(error).toMatchObject({ code: "ERR_STORE_UNAVAILABLE", key: "k" });
  expect(lease.held).toBe(false);
  await within(system, 3_000, others().acquire("k"));
});

test("extend moves the end and later renewals keep the new length", async () => {
  const { system, locks } = world();
  const lease = await locks().acquire("k", { ttl: "1s" });
  await lease.extend("10s");
  expect(lease.remaining).toBeGreaterThan(9_900);
  await system.advance(60_000);
  expect(lease.remaining).toBeGreaterThan(5_000);
});

test("extend of a lease that the store has given away rejects with LockLostError", async () => {
  const { system, locks, others } = world();
  const lease = await locks().acquire("k", { ttl: "10s" });
  await others().revoke("k", { reason: "test", force: true });
  await system.settle();
  expect(await refusal(lease.extend())).toMatchObject({ code: "ERR_LOCK_LOST", reason: "revoked" });
});

test("verify asks the store, and false marks the lease lost", async () => {
  const { door, locks } = world();
  const lease = await locks().acquire("k");
  expect(await lease.verify()).toBe(true);
  const store = door.lastOpened;
  await store?.abandon(
    [
      {
        keys: ["k"],
        id: (LeaseHandle.unwrap(lease) as HeldLease).holds[0]?.request.id,
      } as never,
    ],
    {} as never,
  );
  expect(await lease.verify()).toBe(false);
  expect(lease.held).toBe(false);
});

test("verify rejects when the store cannot be asked, and the lease goes on", async () => {
  const { door, locks } = world();
  const lease = await locks().acquire("k");
  door.faults.set("owns", "fail");
  expect(await refusal(lease.verify())).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  expect(lease.held).toBe(true);
});

test("toJSON is plain: the fence as a decimal string, no id", async () => {
  const { locks } = world();
  const lease = await locks().acquire("k", { label: "me" });
  const plain = JSON.parse(JSON.stringify(lease)) as Record<string, unknown>;
  expect(plain).toMatchObject({
    key: "k",
    keys: ["k"],
    label: "me",
    mode: "exclusive",
    fence: String(lease.fence),
    held: true,
  });
  expect(JSON.stringify(plain)).not.toMatch(/[0-9a-f]{32}/);
});

test("toJSON has `remaining` in whole ms, rounded down", async () => {
  const { locks } = world({ clock: "store" });
  const lease = await locks().acquire("k", { ttl: 1_001 });
  expect(lease.remaining).toBeCloseTo(997.998);
  expect(lease.toJSON()["remaining"]).toBe(997);
});

test("leases of several keys have a fence per key; `fence` throws and says what to use", async () => {
  const { locks } = world();
  const lease = await locks().acquire(["b", "a", "b"]);
  expect(lease.keys).toEqual(["a", "b"]);
  expect(() => lease.fence).toThrow(/fenceOf/);
  expect(lease.fenceOf("a")).toBeGreaterThan(0n);
  expect(() => lease.fenceOf("c")).toThrow(/key must be one of "a", "b", got "c"/);
});

test("renewals of many leases go to the store in few calls", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  for (let i = 0; i < 500; i += 1) await mine.acquire(`k${i}`, { ttl: "30s" });
  await system.advance(30_000);
  expect(door.count("renew")).toBeLessThanOrEqual(4);
});

test("a revoked holder keeps the key until it lets go, at most until its window ends (P1)", async () => {
  const { system, locks, others } = world();
  const [mine, theirs] = [locks(), others()];
  const lease = await mine.acquire("k", { ttl: "10s" });
  await theirs.revoke("k", { reason: "stuck" });
  await system.advance(100);
  expect(lease.signal.aborted).toBe(true);
  await system.advance(5_000);
  expect(await theirs.tryAcquire("k")).toBeNull();
  await lease.release();
  await system.advance(100);
  const next = await theirs.tryAcquire("k", { ttl: "10s" });
  expect(next?.fence).toBeGreaterThan(lease.fence);

  await mine.revoke("k", { reason: "stuck again" });
  await system.advance(9_000);
  expect(await mine.tryAcquire("k")).toBeNull();
  await system.advance(2_500);
  expect(await mine.tryAcquire("k")).not.toBeNull();
});

test("a revoked holder that lets go as soon as its signal aborts frees the key at once (P11)", async () => {
  const { system, locks, others } = world();
  const theirs = others();
  const lease = await locks().acquire("k", { ttl: "2m" });
  lease.signal.addEventListener("abort", () => void lease.release());
  await theirs.revoke("k", { reason: "stuck" });
  const next = await within(system, 1_000, theirs.acquire("k"));
  expect(next.fence).toBeGreaterThan(lease.fence);
});

test("locks that are closed let go of revoked leases", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const lease = await mine.acquire("k", { ttl: "10s" });
  await others().revoke("k", { reason: "stuck" });
  await system.advance(100);
  expect(lease.held).toBe(false);
  await mine.close();
  expect(await others().tryAcquire("k")).not.toBeNull();
});

test("after waiting a lease starts with its full ttl, whatever its push said (P2)", async () => {
  const { system, locks, others } = world();
  const holder = await others().acquire("k");
  const waiting = locks().acquire("k", { ttl: "30s" });
  await system.advance(700);
  await holder.release();
  const lease = await within(system, 100, waiting);
  expect(lease.remaining).toBeGreaterThan(29_900);
  system.stall(1_200);
  expect(lease.held).toBe(true);
});

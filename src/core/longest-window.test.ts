// Stores whose grants are shorter than the ttl for good, because a session keeps them.

import { describe, expect, test } from "vitest";
import { world } from "./fixture.ts";

describe("a store that gives no window longer than its session's", () => {
  const SHORT = { longestMs: 2_000, ends: "session" } as const;

  test("has a longer ttl renewed within it", async () => {
    const { system, door, locks } = world(SHORT);
    const lease = await locks().acquire("k", { ttl: "30s" });
    expect(lease.remaining).toBeLessThanOrEqual(SHORT.longestMs);
    await system.advance(60_000);
    expect(lease.held).toBe(true);
    expect(door.count("renew")).toBeGreaterThan(60_000 / SHORT.longestMs);
    expect(door.count("renew")).toBeLessThan((60_000 / SHORT.longestMs) * 4);
  });

  test("is renewed for a holder that does not renew until its ttl is over, and not longer (P2)", async () => {
    const { system, locks } = world(SHORT);
    const lease = await locks().acquire("k", { ttl: "9s", renew: false });
    await system.advance(8_900);
    expect(lease.held).toBe(true);
    await system.advance(100);
    expect(lease.held).toBe(false);
  });

  test("keeps an extended lease for all of its new ttl, and not longer", async () => {
    const { system, locks } = world(SHORT);
    const lease = await locks().acquire("k", { ttl: "1s", renew: false });
    await lease.extend("7s");
    await system.advance(6_900);
    expect(lease.held).toBe(true);
    await system.advance(100);
    expect(lease.held).toBe(false);
  });

  test("loses the lease when the renewals within the window fail (P7)", async () => {
    const { system, door, locks } = world(SHORT);
    const lease = await locks().acquire("k", { ttl: "30s" });
    door.faults.set("renew", "fail");
    await system.advance(SHORT.longestMs);
    expect(lease.held).toBe(false);
  });
});

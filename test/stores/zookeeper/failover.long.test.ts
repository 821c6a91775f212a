// An ensemble that loses its leader while a lock is held and waited for.

import { describe, expect, it } from "vitest";
import { failover } from "./failover-fixture.ts";

/** The aim is one second. */
const LONGEST_MS = 10_000;

describe.each([
  ["killed", "SIGKILL"],
  ["frozen", "SIGSTOP"],
] as const)("a leader that is %s", (_how, signal) => {
  it("costs a holder and twenty waiters time and nothing else (P1, P3, P10)", async () => {
    const found = await failover(signal);
    expect(found).toMatchObject({ grants: 21, overlaps: 0, fenceErrors: 0 });
    expect(found.nextGrantMs).toBeLessThan(LONGEST_MS);
  });
});

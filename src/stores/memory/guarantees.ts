// The guarantees of the memory store: the strongest ones, within one process.

import type { Guarantees } from "../../core/store.ts";

/** The claim window of a chosen waiter. A waiter sends four heartbeats in this time. */
export const CLAIM_MS = 1_000;
const HEARTBEAT_MS: number = CLAIM_MS / 4;

/** The guarantees of the memory store. */
export const memoryGuarantees: Guarantees = {
  fence: "G3",
  ends: "lease",
  freeAfterCrashMs: "lease",
  order: "fifo",
  wakes: "push",
  pollMs: HEARTBEAT_MS,
  claimMs: CLAIM_MS,
  clock: "machine",
  scope: "process",
  kinds: ["exclusive", "shared", "semaphore", "multi", "keep"],
  survives: ["blocked event loop"],
  needs: ["all users of a key share one process and one memory store"],
};

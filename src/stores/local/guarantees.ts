// The guarantees of the local store. A test checks every number here.

import type { Guarantees } from "../../core/store.ts";

/** The claim window of a chosen waiter. A waiter sends four heartbeats in this time. */
export const CLAIM_MS = 1_000;
export const HEARTBEAT_MS: number = CLAIM_MS / 4;

/** The guarantees of the local store. */
export const localGuarantees: Guarantees = {
  // Within one boot. Each boot has a folder of its own, and only the wall clock keeps fences growing across
  // boots.
  fence: "G3",
  ends: "lease",
  // Milliseconds in practice: the kernel closes the socket of the dead holder, and the next waiter attempts
  // again. This is the bound if the waiter does not notice the closed socket.
  freeAfterCrashMs: CLAIM_MS,
  order: "fifo",
  wakes: "push",
  pollMs: HEARTBEAT_MS,
  claimMs: CLAIM_MS,
  clock: "machine",
  scope: "machine",
  kinds: ["exclusive", "shared", "semaphore", "multi", "keep"],
  survives: ["client kill -9", "blocked event loop", "client wall clock set", "push lost", "store full"],
  needs: [
    "one kernel: all users of a key run on one machine and see the same directory",
    "a local file system that appends atomically",
    "nobody deletes or edits the files while they are in use",
  ],
};

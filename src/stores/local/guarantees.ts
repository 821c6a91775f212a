// What the local store promises, as data. Every number here is kept by a test.

import type { Guarantees } from "../../core/store.ts";

/** A chosen waiter may take so long to answer; it beats four times in that time. */
export const CLAIM_MS = 1_000;
export const HEARTBEAT_MS: number = CLAIM_MS / 4;

export const localGuarantees: Guarantees = {
  // Within one boot; a new boot starts a new directory, and the wall clock alone keeps fences growing over
  // it.
  fence: "G3",
  ends: "lease",
  // Milliseconds in practice: the kernel closes the dead holder's socket and its next in line looks. This is
  // the bound when that news is lost too.
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

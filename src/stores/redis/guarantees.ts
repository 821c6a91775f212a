// What one Redis node promises, as data. Every number here is kept by a test.

import type { Guarantees } from "../../core/store.ts";

/** A chosen waiter may take so long to answer; it beats four times in that time. */
export const CLAIM_MS = 1_000;
export const HEARTBEAT_MS: number = CLAIM_MS / 4;

export const redisGuarantees: Guarantees = {
  // Fences are kept beside the lock and start from the server's clock: only lost writes and a clock that ran back break them.
  fence: "G1",
  ends: "lease",
  freeAfterCrashMs: "lease",
  order: "fifo",
  wakes: "push",
  pollMs: HEARTBEAT_MS,
  claimMs: CLAIM_MS,
  clock: "store",
  scope: "network",
  kinds: ["exclusive", "shared", "semaphore", "multi", "keep"],
  survives: [
    "client kill -9",
    "blocked event loop",
    "client wall clock set",
    "connection lost",
    "reply lost",
    "push lost",
    "scripts flushed",
    "store full",
  ],
  needs: [
    "one Redis or Valkey, 6.2 or later, that never evicts: maxmemory-policy noeviction",
    "appendonly yes and appendfsync always, where exclusion must hold over a restart of the server; without it the fence alone holds",
    "a server clock that is slewed, not set: a jump forward ends leases early",
    "no failover to a replica that may lack the newest writes",
  ],
};

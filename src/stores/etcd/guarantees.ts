// What etcd promises, as data. A test covers every number here.

import type { Guarantees } from "../../core/store.ts";

/**
 * Lease of a waiter. The waiter renews it four times in that time, and loses its position if it is silent
 * longer.
 */
export const WAITER_SECONDS = 2;
/** The server looks for expired leases twice a second. */
const SWEEP_MS = 500;
/** A lease outlives ttl and grace by up to a second, is rounded up to whole seconds, and is then swept. */
const LATE_MS = 2_000 + SWEEP_MS;
export const HEARTBEAT_MS: number = (WAITER_SECONDS * 1_000) / 4;

const COMMON = {
  // Fences are revisions, which a majority has written to disk.
  fence: "G3",
  ends: "lease",
  freeAfterCrashMs: "lease",
  freeLateMs: LATE_MS,
  wakes: "push",
  pollMs: HEARTBEAT_MS,
  claimMs: WAITER_SECONDS * 1_000 + SWEEP_MS,
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
    "server restart",
    "failover",
    "compaction",
    "store full",
  ],
  needs: [
    "etcd 3.4 or later; before 3.4.31 and 3.5.13 a leader that stood still may end leases too early: " +
      "then the fence alone holds",
    "a majority of the members; without it nothing is granted and nothing is renewed",
    "server clocks that run at the same rate as the clients' to within 0.2 percent",
    "no restore from an older backup: revisions would run back",
  ],
} as const satisfies Omit<Guarantees, "order">;

/** `order=fifo`: a queue of keys in the order of their creation. */
export const etcdGuarantees: Guarantees = { ...COMMON, order: "fifo" };
/** `order=exclusive`: whoever is first when the key is free. */
export const etcdExclusiveGuarantees: Guarantees = { ...COMMON, order: "none" };

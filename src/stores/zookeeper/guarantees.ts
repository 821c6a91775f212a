// What a ZooKeeper ensemble promises, as data. Times follow from the session timeout.

import type { Guarantees } from "../../core/store.ts";

export const DEFAULT_SESSION_MS = 10_000;

/** How often a waiter attempts without a notification. */
export const POLL_MS = 1_000;

/**
 * The share of the session timeout for which a grant is valid, counted from its request. The rest covers what
 * a server has not forwarded to the leader yet, a leader that was replaced without noticing, and ticks.
 */
const WINDOW_SHARE = 0.6;
/** Sessions end with a tick of the leader, and two ticks are the shortest session. */
const EXPIRY_SHARE = 1.5;

export function zookeeperGuarantees(sessionMs: number = DEFAULT_SESSION_MS): Guarantees {
  const endsMs = Math.ceil(sessionMs * EXPIRY_SHARE);
  return {
    // The number of the transaction that created the queue node. It grows over the whole ensemble.
    fence: "G3",
    ends: "session",
    freeAfterCrashMs: endsMs,
    order: "fifo",
    wakes: "push",
    pollMs: POLL_MS,
    claimMs: endsMs,
    longestMs: Math.floor(sessionMs * WINDOW_SHARE),
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
      "server frozen",
      "server clock set",
      "store full",
      "failover",
    ],
    needs: [
      "ZooKeeper 3.5 or later; an ensemble of three or more where a server may fail",
      "a session timeout of at least four ticks of the servers (tickTime)",
      "servers that write to disk before they answer: forceSync is not set to no",
    ],
  };
}

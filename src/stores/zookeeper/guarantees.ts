// What a ZooKeeper ensemble promises, as data. Times follow from the session timeout.

import type { Guarantees } from "../../core/store.ts";

export const DEFAULT_SESSION_MS = 10_000;

/** A waiter looks by itself so often; watches are quicker. */
export const POLL_MS = 1_000;

/**
 * The share of the session timeout for which a holder may believe in an answer, counted from its request. The rest belongs to
 * what a server may know and not yet have told the leader, to a leader that was replaced without noticing, and to ticks.
 */
const WINDOW_SHARE = 0.6;
/** Sessions end with a tick of the leader, and two ticks are the shortest session. */
const EXPIRY_SHARE = 1.5;

export function zookeeperGuarantees(sessionMs: number = DEFAULT_SESSION_MS): Guarantees {
  const endsMs = Math.ceil(sessionMs * EXPIRY_SHARE);
  return {
    // The number of the transaction that made the place in line: it grows over the whole ensemble and outlives everything.
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

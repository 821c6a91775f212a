// What N independent Redis masters promise together, as data. Every number here is kept by a test.

import type { Guarantees } from "../../core/store.ts";

/** A waiter attempts again at least this often, whatever its notifications. */
export const POLL_MS = 250;
/** How long a released key is reserved for the next waiter. */
export const CLAIM_MS = 150;

export const redlockGuarantees: Guarantees = {
  // Two majorities share a node, and a node accepts only a larger fence than all it has accepted.
  fence: "G2",
  ends: "lease",
  freeAfterCrashMs: "lease",
  order: "none",
  wakes: "push",
  pollMs: POLL_MS,
  claimMs: CLAIM_MS,
  clock: "store",
  scope: "network",
  kinds: ["exclusive", "keep"],
  survives: [
    "client kill -9",
    "blocked event loop",
    "client wall clock set",
    "connection lost",
    "reply lost",
    "push lost",
    "scripts flushed",
    "a minority of the nodes frozen, cut off or gone",
    "a minority of the nodes killed and restarted, with or without their data",
  ],
  needs: [
    "an odd number of Redis or Valkey masters, 6.2 or later, five or more, that share no machine, no disk " +
      "and no power",
    "maxmemory-policy noeviction on every node",
    "node clocks that are slewed, not set: where one jumps forward under a grant of a bare majority, a " +
      "client that is new to the node can become a second holder; the fence holds",
    "the same nodes and the same maxTtl in every process",
  ],
};

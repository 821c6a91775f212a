// What the two modes on one PostgreSQL primary promise, as data. Every number here is kept by a test.

import type { Guarantees } from "../../core/store.ts";

/** How long the key is reserved for a waiter that was called. */
export const CLAIM_MS = 1_000;
/** How often the first waiter attempts again. */
export const POLL_MS = 1_000;

export const postgresGuarantees: Guarantees = {
  // Fences are rows of a database that keeps what it has committed, with a floor below which none is made
  // anew.
  fence: "G3",
  ends: "lease",
  freeAfterCrashMs: "lease",
  order: "fifo",
  wakes: "push",
  pollMs: POLL_MS,
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
    "server restart",
    "store full",
    "deadlock victim",
  ],
  needs: [
    "one PostgreSQL primary, 14 or later, with fsync on",
    "a server clock that is slewed, not set: a jump forward ends leases early",
    "no failover to a standby that may lack the newest commits, or fences by time alone (G1) over it",
  ],
};

/** How often a waiter asks whether its session still waits. */
const LOOK_MS = 1_000;

export const advisoryGuarantees: Guarantees = {
  fence: "G3",
  ends: "session",
  // The server notices the end of a connection in milliseconds.
  freeAfterCrashMs: 1_000,
  order: "none",
  wakes: "block",
  pollMs: LOOK_MS,
  claimMs: LOOK_MS,
  clock: "store",
  scope: "network",
  kinds: ["exclusive", "shared"],
  survives: ["client kill -9", "blocked event loop", "client wall clock set", "reply lost"],
  needs: [
    "one PostgreSQL primary, 14 or later, reached without a transaction pooler",
    "a connection per lock that is held or waited for",
    "a server clock that is slewed, not set: idle_session_timeout goes by it, so that a jump forward " +
      "may end a session and with it its lock",
    "a server that stays up: with its process every session lock ends, and only the fence tells the " +
      "holders apart",
  ],
};

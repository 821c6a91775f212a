// What the two modes promise, as data. Every number here is kept by a test.

import type { Guarantees } from "../../core/store.ts";

/**
 * How often a waiter of row mode shows itself to core. It costs the server one question; the grant itself is
 * pushed.
 */
export const ROW_POLL_MS = 1_000;

/** A waiter to whom the row has come may take so long to say so. The server counts in whole seconds. */
export const ROW_CLAIM_MS = 1_000;

/** A waiter of the lease table that was called has the key reserved for so long. */
const CLAIM_MS = 2_000;
/** The first waiter attempts again this often, as the procedures say. */
const HEARTBEAT_MS = 1_000;

export const mysqlGuarantees: Guarantees = {
  // On one server a fence is a row that is committed before the grant is told. Over a failover to a server
  // that may lack the newest commits the clock takes its place, which `open` says once it knows how many
  // servers there are.
  fence: "G3",
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
    "server restart",
    "store full",
    "deadlock victim",
  ],
  needs: [
    "MySQL 8 or MariaDB 10.6 (or later) with innodb_flush_log_at_trx_commit 1 and sync_binlog 1",
    "a server clock that is slewed, not set: a jump forward ends leases early",
    "with several hosts: the same hosts in the same order for all, and replication between them that is " +
      "behind by less than a second",
  ],
};

/** Several servers that replicate behind the commit: what was not replicated yet is lost with its server. */
export const mysqlSeveralGuarantees: Guarantees = {
  ...mysqlGuarantees,
  fence: "G1",
  survives: [...mysqlGuarantees.survives, "failover, where replication was not behind"],
};

export const mysqlRowGuarantees: Guarantees = {
  // The fence row is written and committed before the grant is told, on the server that holds the lock.
  fence: "G3",
  ends: "session",
  freeAfterCrashMs: 1_000,
  order: "none",
  wakes: "block",
  pollMs: ROW_POLL_MS,
  claimMs: ROW_CLAIM_MS,
  clock: "store",
  scope: "network",
  kinds: ["exclusive", "shared"],
  survives: ["client kill -9", "client wall clock set", "server clock set", "reply lost", "push lost"],
  needs: [
    "one MySQL 8 or MariaDB 10.6 (or later) server: locks of a session are not replicated and do not " +
      "survive its restart or a failover; the fence does",
    "a connection of its own for every lock that is held or waited for: max_connections, and no pooler " +
      "that shares sessions between clients",
    "innodb_flush_log_at_trx_commit 1, where fences must grow over a power cut of the server",
  ],
};

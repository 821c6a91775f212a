// What Redis promises, as data: one node, a primary that sentinels name, a Cluster. A test pins every number.

import type { Guarantees } from "../../core/store.ts";
import type { Topology } from "./options.ts";

/** How long a notified waiter may take to answer. It sends four heartbeats in that time. */
export const CLAIM_MS = 1_000;
const HEARTBEAT_MS: number = CLAIM_MS / 4;

const FAILOVER_OF_ONE = "no failover to a replica that may lack the newest writes";

export const redisGuarantees: Guarantees = {
  // Fences are kept beside the lock and start from the server's clock: only lost writes together with a clock
  // that ran back break them.
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
    "appendonly yes and appendfsync always, where exclusion must hold over a restart of the server; " +
      "without it the fence alone holds",
    "a server clock that is slewed, not set: a jump forward ends leases early",
    FAILOVER_OF_ONE,
  ],
};

const FAILOVER =
  "for exclusion over a failover: that the new primary has the newest writes. Replication is asynchronous, " +
  "so two holders may meet; the fence alone holds";
const CLOCKS =
  "clocks of the nodes that agree: a new primary whose clock is behind may give smaller fences for so long";

/** A primary that sentinels name. */
export const redisSentinelGuarantees: Guarantees = {
  ...redisGuarantees,
  needs: [...redisGuarantees.needs.slice(0, -1), "several sentinels, all named in the URL", FAILOVER, CLOCKS],
};

/** Keys are in different places, so several are taken one after another, in one order for all (P9). */
export const redisClusterGuarantees: Guarantees = {
  ...redisGuarantees,
  kinds: redisGuarantees.kinds.filter((kind) => kind !== "multi"),
  survives: [...redisGuarantees.survives, "slot moved"],
  needs: [...redisGuarantees.needs.slice(0, -1), FAILOVER, CLOCKS],
};

const BY_TOPOLOGY: Readonly<Record<Topology, Guarantees>> = {
  node: redisGuarantees,
  sentinel: redisSentinelGuarantees,
  cluster: redisClusterGuarantees,
};

export interface Settings {
  readonly topology: Topology;
  readonly replicas: number;
  readonly scripts: boolean;
}

/** What is promised with these settings. */
export function guaranteesFor({ topology, replicas, scripts }: Settings): Guarantees {
  const all = BY_TOPOLOGY[topology];
  if (replicas === 0 && scripts) return all;
  const acknowledged =
    `after a failover, that the new primary was one of the ${replicas} replicas that acknowledged, with a ` +
    "clock that agrees within grace";
  return {
    ...all,
    // A transaction takes a free key or none. A waiter asks again, without a place in the queue.
    ...(scripts ? {} : { kinds: ["exclusive"], order: "none", wakes: "poll" }),
    // A transaction cannot write anything while memory is full, not even a renewal.
    survives: scripts ? all.survives : all.survives.filter((fault) => fault !== "store full"),
    needs:
      replicas === 0
        ? all.needs
        : [...all.needs.filter((need) => need !== FAILOVER && need !== FAILOVER_OF_ONE), acknowledged],
  };
}

// Is this Redis safe to lock on (P19)? Asked when a store is opened, and by `check()`. A setting that cannot
// be read is a finding, not an error: hosted servers forbid a lot.

import { StoreUnavailableError, UnsafeStoreError, UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import { EVICTION_FIX } from "../shared/eviction.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { findClockSkew } from "./topology/clock-skew.ts";
import { type Info, parseInfo } from "./topology/server-info.ts";
import { findTopologyProblems } from "./topology/topology-health.ts";
import {
  listOf,
  type CallContext,
  type RedisNode,
  type RedisPort,
  type Sender,
  textOf,
} from "./client/port.ts";

const OLDEST: readonly [number, number] = [6, 2];
type Version = readonly [number, number, number];

/**
 * The first release of each line without the known ways out of the script sandbox (CVE-2024-46981,
 * CVE-2025-49844).
 */
const FIXED_RELEASES: Readonly<Record<"Redis" | "Valkey", readonly Version[]>> = {
  Redis: [
    [6, 2, 20],
    [7, 2, 11],
    [7, 4, 6],
    [8, 0, 4],
    [8, 2, 2],
  ],
  Valkey: [
    [7, 2, 11],
    [8, 0, 6],
    [8, 1, 4],
  ],
};

const FORBIDDEN = /^(NOPERM|ERR unknown command)/;

/** null when this user may not ask. */
async function readInfo(node: Sender, call: CallContext): Promise<Info | null> {
  try {
    return parseInfo(textOf(await node.send(["INFO"], call)));
  } catch (error) {
    if (error instanceof Error && FORBIDDEN.test(error.message)) return null;
    throw error;
  }
}

const UNLIMITED: CallContext = { signal: NEVER_ABORTED };

/** Rejects servers that can drop locks, unless the caller accepts the setting by name. Asks every primary. */
export async function rejectUnsafe(port: RedisPort, allow: readonly string[]): Promise<void> {
  const nodes = (await port.nodes?.(UNLIMITED))?.filter(({ isPrimary }) => isPrimary);
  await Promise.all((nodes ?? [port]).map((node) => vet(node, allow)));
  if (port.slotOf !== undefined) return;
  if ((await readInfo(port, UNLIMITED))?.get("cluster_enabled") !== "1") return;
  throw new UnsupportedError(
    "this Redis is a node of a Cluster: use redis+cluster://host:port, or a client of the Cluster",
  );
}

/** Throws if this node is not safe to lock on. */
export async function vet(node: Sender, allow: readonly string[]): Promise<void> {
  const info = await readInfo(node, UNLIMITED);
  if (info === null) return vetRole(node);
  const [major = OLDEST[0], minor = 0] = numbers(info.get("redis_version"));
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new UnsupportedError(
      `this is Redis ${info.get("redis_version")}: holdfast needs ${OLDEST.join(".")} or later, or Valkey`,
    );
  }
  if (info.get("role") === "slave") throw replicaError();
  if (evicts(info) && !allow.includes("eviction")) {
    throw new UnsafeStoreError(
      `this Redis may evict locks: maxmemory-policy is ${info.get("maxmemory_policy")} ` +
        `with maxmemory ${info.get("maxmemory")}`,
      { setting: "maxmemory-policy", fix: EVICTION_FIX },
    );
  }
}

/** For users who may not read INFO. If they may not ask for the role either, a write fails (READONLY). */
async function vetRole(node: Sender): Promise<void> {
  const [role] = listOf(await node.send(["ROLE"], UNLIMITED).catch(() => []));
  if (role !== undefined && textOf(role) !== "master") throw replicaError();
}

function replicaError(): StoreUnavailableError {
  return new StoreUnavailableError(
    "this Redis is a replica, and locks live on the primary: connect to that one",
  );
}

/** Whether this user may run scripts, by digest and by text. */
export async function mayRunScripts(port: Sender): Promise<boolean> {
  const asked = [
    ["EVALSHA", "0".repeat(40), "0"],
    ["EVAL", "return 1", "0"],
  ].map((words) =>
    port.send(words, UNLIMITED).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Error && FORBIDDEN.test(error.message)) return false;
        if (error instanceof Error && error.message.startsWith("NOSCRIPT")) return true;
        throw error;
      },
    ),
  );
  return (await Promise.all(asked)).every(Boolean);
}

/** `replicas`: how many must acknowledge a grant. `nowMs`: any monotonic clock. */
export async function findProblems(
  port: RedisPort,
  replicas: number,
  call: CallContext,
  nowMs: () => number,
): Promise<Finding[]> {
  const nodes = await port.nodes?.(call);
  if (nodes === undefined) return findingsOf(port, "", replicas, call);
  const found = await Promise.all(
    nodes.map((node) =>
      findingsOf(node, `${node.name}: `, node.isPrimary ? replicas : null, call).catch((error: unknown) => [
        unreachable(node, error),
      ]),
    ),
  );
  return [
    ...found.flat(),
    ...(await findTopologyProblems(port, nodes, call)),
    ...(await findClockSkew(nodes, call, nowMs)),
  ];
}

/** `at`: which node, where there are several. `replicas`: how many it needs, or null if it is one itself. */
async function findingsOf(
  node: Sender,
  at: string,
  replicas: number | null,
  call: CallContext,
): Promise<Finding[]> {
  const info = await readInfo(node, call);
  if (info === null) return [{ ...UNREADABLE, what: at + UNREADABLE.what }];
  const found: Finding[] = [];
  if (evicts(info)) {
    found.push({
      id: "eviction",
      level: "danger",
      what: `maxmemory-policy is ${info.get("maxmemory_policy")}`,
      why:
        replicas !== null
          ? "a lock that is evicted is free while its holder still works"
          : "this replica may become the primary, and a lock that is evicted is free while its holder " +
            "still works",
      fix: EVICTION_FIX,
    });
  }
  if (!info.has("maxmemory_policy")) found.push(UNREADABLE);
  found.push(...(await persistence(node, info, call)), ...oldScripts(info));
  if (at !== "" && replicas !== null) found.push(...withoutReplica(info));
  if (replicas === 0) found.push(...asynchronousReplication(info, at !== ""));
  found.push(...tooFewReplicas(info, replicas ?? 0));
  return found.map((one) => ({ ...one, what: at + one.what }));
}

function withoutReplica(info: Info): Finding[] {
  if (info.get("connected_slaves") !== "0") return [];
  return [
    {
      id: "replicas",
      level: "warning",
      what: "this primary has no replica",
      why: "when it fails nobody takes its place, and its locks cannot be had until it is back",
      fix: "give every primary at least one replica",
    },
  ];
}

function unreachable(node: RedisNode, error: unknown): Finding {
  return {
    id: "unreachable",
    level: "warning",
    what: `${node.name} does not answer: ${error instanceof Error ? error.message : String(error)}`,
    why: "what cannot be asked cannot be checked",
    fix: "start the node, or remove it from the sentinels or the Cluster",
  };
}

const UNREADABLE: Finding = {
  id: "settings-unknown",
  level: "info",
  what: "this user may not read the server's settings",
  why: "whether locks can be evicted or forgotten is not known",
  fix: "allow +info to this user, or make sure of maxmemory-policy noeviction yourself",
};

/** `isPromoted`: a replica takes over by itself. */
function asynchronousReplication(info: Info, isPromoted: boolean): Finding[] {
  const connected = Number(info.get("connected_slaves") ?? 0);
  if (connected === 0) return [];
  return [
    {
      id: "asynchronous-replication",
      level: isPromoted ? "warning" : "info",
      what:
        connected === 1
          ? "one replica follows behind the write, and no grant waits for it"
          : `${connected} replicas follow behind the write, and no grant waits for them`,
      why:
        "a replica that is promoted may not know of the last grants: two holders may believe at once, and " +
        "only the fence tells",
      fix:
        "let grants wait for replicas (replicas: 1, in a URL ?replicas=1), and check the fence at the " +
        "resource",
    },
  ];
}

function tooFewReplicas(info: Info, wanted: number): Finding[] {
  const connected = Number(info.get("connected_slaves") ?? wanted);
  if (connected >= wanted) return [];
  return [
    {
      id: "few-replicas",
      level: "danger",
      what: `${connected} replicas are connected and replicas: ${wanted} is asked for`,
      why: "no lock is granted until enough replicas acknowledge it",
      fix: "bring the replicas back, or ask for fewer",
    },
  ];
}

/** `failure`: why there is no subscription, or null. */
export function missingSubscription(failure: Error | null): Finding[] {
  if (failure === null) return [];
  return [
    {
      id: "no-push",
      level: "warning",
      what: `the server does not let this client listen: ${failure.message}`,
      why:
        "waiters learn of their turn by their heartbeat only, and holders of a revocation by their next " +
        "renewal",
      fix: "allow one more connection, and to this user +subscribe and the channels NAMESPACE:push:*",
    },
  ];
}

async function persistence(node: Sender, info: Info, call: CallContext): Promise<Finding[]> {
  const fix =
    "set appendonly yes and appendfsync always where two holders at once must not happen, and check the " +
    "fence at the resource";
  const why = "after a restart the server may not know who held what; fences still grow, by its clock";
  if (info.get("aof_enabled") === "0") {
    return [{ id: "persistence", level: "warning", what: "the append-only file is off", why, fix }];
  }
  const fsync = await node.send(["CONFIG", "GET", "appendfsync"], call).then(
    (reply) => (Array.isArray(reply) ? textOf(listOf(reply)[1]) : ""),
    () => "",
  );
  if (fsync === "always" || fsync === "") return [];
  return [{ id: "persistence", level: "info", what: `appendfsync is ${fsync}`, why, fix }];
}

export function oldScripts(info: Info): Finding[] {
  const name = info.has("valkey_version") ? "Valkey" : "Redis";
  const version = numbers(info.get("valkey_version") ?? info.get("redis_version"));
  const [major = 0, minor = 0, patch = 0] = version;
  const line = FIXED_RELEASES[name].find((fixed) => fixed[0] === major && fixed[1] === minor);
  // A line that is not in the table is older or newer than all of them.
  const [last, lastMinor] = FIXED_RELEASES[name].at(-1) as Version;
  const newer = major > last || (major === last && minor > lastMinor);
  if (line === undefined ? newer || version.length === 0 : patch >= line[2]) return [];
  return [
    {
      id: "old-redis",
      level: "info",
      what: `this is ${name} ${version.join(".")}`,
      why:
        "whoever may run scripts on such a version may get out of their sandbox, unless your distribution " +
        "has fixed it",
      fix: "update the server, and let only trusted users run EVAL",
    },
  ];
}

function evicts(info: Info): boolean {
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  return Number(info.get("maxmemory") ?? 0) > 0 && policy !== "noeviction";
}

/** Empty where the server does not report its version. */
function numbers(version = ""): number[] {
  return (version.match(/\d+/g) ?? []).map(Number);
}

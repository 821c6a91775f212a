// Is this Redis safe to lock on (P19)? Asked when a store is opened, and by `check()`. What cannot be read is a finding, not a
// refusal: hosted servers forbid a lot.

import { StoreUnavailableError, UnsafeStoreError, UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import { EVICTION_FIX } from "../shared/eviction.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { clockDifference } from "./clocks.ts";
import { type Info, parseInfo } from "./facts.ts";
import { together } from "./together.ts";
import { listOf, type Patience, type RedisNode, type RedisPort, type Sender, textOf } from "./port.ts";

const OLDEST: readonly [number, number] = [6, 2];
type Version = readonly [number, number, number];

/** The first releases of each line without the known ways out of the script sandbox (CVE-2024-46981, CVE-2025-49844). */
const SCRIPTS_MENDED: Readonly<Record<"Redis" | "Valkey", readonly Version[]>> = {
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
async function readInfo(port: Sender, patience: Patience): Promise<Info | null> {
  try {
    return parseInfo(textOf(await port.send(["INFO"], patience)));
  } catch (error) {
    if (error instanceof Error && FORBIDDEN.test(error.message)) return null;
    throw error;
  }
}

const FOREVER: Patience = { signal: NEVER_ABORTED };

/** Refuses what can drop locks, unless the caller accepts it by name. Every primary is asked. */
export async function refuseUnsafe(port: RedisPort, allow: readonly string[]): Promise<void> {
  const nodes = (await port.nodes?.(FOREVER))?.filter(({ primary }) => primary);
  await Promise.all((nodes ?? [port]).map((node) => vet(node, allow)));
  if (port.slotOf !== undefined) return;
  if ((await readInfo(port, FOREVER))?.get("cluster_enabled") !== "1") return;
  throw new UnsupportedError(
    "this Redis is a node of a Cluster: use redis+cluster://host:port, or a client of the Cluster",
  );
}

/** Throws when this node is none to lock on. */
export async function vet(node: Sender, allow: readonly string[]): Promise<void> {
  const info = await readInfo(node, FOREVER);
  if (info === null) return vetRole(node);
  const [major = OLDEST[0], minor = 0] = numbers(info.get("redis_version"));
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new UnsupportedError(
      `this is Redis ${info.get("redis_version")}: holdfast needs ${OLDEST.join(".")} or later, or Valkey`,
    );
  }
  if (info.get("role") === "slave") {
    throw replicaError();
  }
  if (evicts(info) && !allow.includes("eviction")) {
    throw new UnsafeStoreError(
      `this Redis may evict locks: maxmemory-policy is ${info.get("maxmemory_policy")} with maxmemory ${info.get("maxmemory")}`,
      { setting: "maxmemory-policy", fix: EVICTION_FIX },
    );
  }
}

/** For users that may not read INFO; who may not ask for the role either finds out by READONLY. */
async function vetRole(node: Sender): Promise<void> {
  const [role] = listOf(await node.send(["ROLE"], FOREVER).catch(() => []));
  if (role !== undefined && textOf(role) !== "master") throw replicaError();
}

function replicaError(): StoreUnavailableError {
  return new StoreUnavailableError(
    "this Redis is a replica, and locks live on the primary: connect to that one",
  );
}

/** Whether this user may run scripts, known or not. */
export async function mayRunScripts(port: Sender): Promise<boolean> {
  const asked = [
    ["EVALSHA", "0".repeat(40), "0"],
    ["EVAL", "return 1", "0"],
  ].map((words) =>
    port.send(words, FOREVER).then(
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

/** `replicas`: how many must acknowledge a grant. `nowMs`: any clock that only runs forward. */
export async function findings(
  port: RedisPort,
  replicas: number,
  patience: Patience,
  nowMs: () => number,
): Promise<Finding[]> {
  const nodes = await port.nodes?.(patience);
  if (nodes === undefined) return findingsOf(port, "", replicas, patience);
  const found = await Promise.all(
    nodes.map((node) =>
      findingsOf(node, `${node.name}: `, node.primary ? replicas : null, patience).catch((error: unknown) => [
        unreachable(node, error),
      ]),
    ),
  );
  return [
    ...found.flat(),
    ...(await together(port, nodes, patience)),
    ...(await clockDifference(nodes, patience, nowMs)),
  ];
}

/** `at`: which node, where there are several. `replicas`: how many it needs, or null where it is one itself. */
async function findingsOf(
  node: Sender,
  at: string,
  replicas: number | null,
  patience: Patience,
): Promise<Finding[]> {
  const info = await readInfo(node, patience);
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
          : "this replica may become the primary, and a lock that is evicted is free while its holder still works",
      fix: EVICTION_FIX,
    });
  }
  if (!info.has("maxmemory_policy")) found.push(UNREADABLE);
  found.push(...(await persistence(node, info, patience)), ...oldScripts(info));
  if (at !== "" && replicas !== null) found.push(...withoutReplica(info));
  if (replicas === 0) found.push(...behindTheWrite(info, at !== ""));
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
    what: `${node.name}: it does not answer: ${error instanceof Error ? error.message : String(error)}`,
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

/** `promoted`: a replica takes over by itself. */
function behindTheWrite(info: Info, promoted: boolean): Finding[] {
  const connected = Number(info.get("connected_slaves") ?? 0);
  if (connected === 0) return [];
  return [
    {
      id: "asynchronous-replication",
      level: promoted ? "warning" : "info",
      what:
        connected === 1
          ? "one replica follows behind the write, and no grant waits for it"
          : `${connected} replicas follow behind the write, and no grant waits for them`,
      why: "a replica that is promoted may not know of the last grants: two holders may believe at once, and only the fence tells",
      fix: "let grants wait for replicas (replicas: 1, in a URL ?replicas=1), and check the fence at the resource",
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
export function noPush(failure: Error | null): Finding[] {
  if (failure === null) return [];
  return [
    {
      id: "no-push",
      level: "warning",
      what: `the server does not let this client listen: ${failure.message}`,
      why: "waiters learn of their turn by their heartbeat only, and holders of a revocation by their next renewal",
      fix: "allow one more connection, and to this user +subscribe and the channels NAMESPACE:push:*",
    },
  ];
}

async function persistence(port: Sender, info: Info, patience: Patience): Promise<Finding[]> {
  const fix =
    "set appendonly yes and appendfsync always where two holders at once must not happen, and check the fence at the resource";
  const why = "after a restart the server may not know who held what; fences still grow, by its clock";
  if (info.get("aof_enabled") === "0") {
    return [{ id: "persistence", level: "warning", what: "the append-only file is off", why, fix }];
  }
  const fsync = await port.send(["CONFIG", "GET", "appendfsync"], patience).then(
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
  const line = SCRIPTS_MENDED[name].find((mended) => mended[0] === major && mended[1] === minor);
  // A line that is not known is an old one, or came after all of these.
  const [last, lastMinor] = SCRIPTS_MENDED[name].at(-1) as Version;
  const newer = major > last || (major === last && minor > lastMinor);
  if (line === undefined ? newer || version.length === 0 : patch >= line[2]) return [];
  return [
    {
      id: "old-redis",
      level: "info",
      what: `this is ${name} ${version.join(".")}`,
      why: "whoever may run scripts on such a version may get out of their sandbox, unless your distribution has mended it",
      fix: "update the server, and let only trusted users run EVAL",
    },
  ];
}

function evicts(info: Info): boolean {
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  return Number(info.get("maxmemory") ?? 0) > 0 && policy !== "noeviction";
}

/** None where it is not told. */
function numbers(version = ""): number[] {
  return (version.match(/\d+/g) ?? []).map(Number);
}

// Is this Redis safe to lock on (P19)? Asked when a store is opened, and by `check()`. What cannot be read is a finding, not a
// refusal: hosted servers forbid a lot.

import { StoreUnavailableError, UnsafeStoreError, UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import { listOf, type Patience, type RedisPort, textOf } from "./port.ts";

export type Info = ReadonlyMap<string, string>;

const OLDEST: readonly [number, number] = [6, 2];
/** The first releases of each line without the known ways out of the script sandbox (CVE-2024-46981, CVE-2025-49844). */
const SCRIPTS_MENDED: readonly (readonly [number, number, number])[] = [
  [6, 2, 20],
  [7, 2, 11],
  [7, 4, 6],
  [8, 0, 4],
  [8, 2, 2],
];

/** null when this user may not ask. */
export async function readInfo(port: RedisPort, patience: Patience): Promise<Info | null> {
  try {
    const text = textOf(await port.send(["INFO"], patience));
    return new Map(
      [...text.matchAll(/^([a-z0-9_]+):(.*?)\r?$/gm)].map(([, name, value]) => [name ?? "", value ?? ""]),
    );
  } catch (error) {
    if (error instanceof Error && /^(NOPERM|ERR unknown command)/.test(error.message)) return null;
    throw error;
  }
}

/** Refuses what can drop locks, unless the caller accepts it by name. */
export function refuseUnsafe(info: Info | null, allow: readonly string[]): void {
  if (info === null) return;
  const [major = OLDEST[0], minor = 0] = versionOf(info);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new UnsupportedError(
      `this is Redis ${info.get("redis_version")}: holdfast needs ${OLDEST.join(".")} or later, or Valkey`,
    );
  }
  if (info.get("role") === "slave") {
    throw new StoreUnavailableError(
      "this Redis is a replica, and locks live on the primary: connect to that one",
    );
  }
  if (evicts(info) && !allow.includes("eviction")) {
    throw new UnsafeStoreError(
      `this Redis may evict locks: maxmemory-policy is ${info.get("maxmemory_policy")} with maxmemory ${info.get("maxmemory")}`,
      { setting: "maxmemory-policy", fix: FIX_EVICTION },
    );
  }
}

const FIX_EVICTION =
  'run CONFIG SET maxmemory-policy noeviction, or use a Redis of its own for locks, or accept it with allow: ["eviction"]';

export async function findings(port: RedisPort, patience: Patience): Promise<Finding[]> {
  const info = await readInfo(port, patience);
  if (info === null) return [UNREADABLE];
  const found: Finding[] = [];
  if (evicts(info)) {
    found.push({
      id: "eviction",
      level: "danger",
      what: `maxmemory-policy is ${info.get("maxmemory_policy")}`,
      why: "a lock that is evicted is free while its holder still works",
      fix: FIX_EVICTION,
    });
  }
  if (!info.has("maxmemory_policy")) found.push(UNREADABLE);
  found.push(...(await persistence(port, info, patience)), ...oldScripts(info));
  return found;
}

const UNREADABLE: Finding = {
  id: "settings-unknown",
  level: "info",
  what: "this user may not read the server's settings",
  why: "whether locks can be evicted or forgotten is not known",
  fix: "allow +info to this user, or make sure of maxmemory-policy noeviction yourself",
};

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

async function persistence(port: RedisPort, info: Info, patience: Patience): Promise<Finding[]> {
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

function oldScripts(info: Info): Finding[] {
  if (info.has("valkey_version")) return [];
  const version = versionOf(info);
  const [major = 0, minor = 0, patch = 0] = version;
  const line = SCRIPTS_MENDED.find((mended) => mended[0] === major && mended[1] === minor);
  if (line === undefined ? major > 7 : patch >= line[2]) return [];
  return [
    {
      id: "old-redis",
      level: "info",
      what: `this is Redis ${version.join(".")}`,
      why: "whoever may run scripts on such a version may get out of their sandbox, unless your distribution has mended it",
      fix: "update the server, and let only trusted users run EVAL",
    },
  ];
}

function evicts(info: Info): boolean {
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  return Number(info.get("maxmemory") ?? 0) > 0 && policy !== "noeviction";
}

function versionOf(info: Info): number[] {
  return (info.get("redis_version") ?? "").split(".").map(Number).filter(Number.isFinite);
}

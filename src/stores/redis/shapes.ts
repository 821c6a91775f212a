// What kind of Redis a given client talks to, told by its shape and nothing else: two copies of a package have two classes.
// Imports no client, so that a description of a store can say what it promises before one is loaded.

import type { Topology } from "./urls.ts";

interface Shape {
  readonly isCluster?: unknown;
  readonly masters?: unknown;
  readonly nodeClient?: unknown;
  readonly nodes?: unknown;
  readonly getSentinelNode?: unknown;
  readonly options?: { readonly sentinels?: unknown } | undefined;
}

export function topologyOfClient(client: object): Topology {
  const { options, getSentinelNode } = client as Shape;
  if (isIoredisCluster(client) || isNodeRedisCluster(client)) return "cluster";
  if (typeof getSentinelNode === "function" || Array.isArray(options?.sentinels)) return "sentinel";
  return "node";
}

export function isIoredisCluster(client: object): boolean {
  const { isCluster, nodes } = client as Shape;
  return isCluster === true && typeof nodes === "function";
}

export function isNodeRedisCluster(client: object): boolean {
  return "masters" in client && typeof (client as Shape).nodeClient === "function";
}

/** Of node-redis; a sentinel client of ioredis has the shape of a plain one. */
export function isNodeRedisSentinel(client: object): boolean {
  return typeof (client as Shape).getSentinelNode === "function";
}

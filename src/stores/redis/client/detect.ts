// Which kind of Redis a given client talks to, by the shape of the client: two copies of a package have two
// classes. Imports no client, so that a store can declare its guarantees before one is loaded.

import type { Topology } from "../options.ts";

interface ClientShape {
  readonly isCluster?: unknown;
  readonly masters?: unknown;
  readonly nodeClient?: unknown;
  readonly nodes?: unknown;
  readonly getSentinelNode?: unknown;
  readonly options?: { readonly sentinels?: unknown } | undefined;
}

export function topologyOfClient(client: object): Topology {
  const { options } = client as ClientShape;
  if (isIoredisCluster(client) || isNodeRedisCluster(client)) return "cluster";
  if (isNodeRedisSentinel(client) || Array.isArray(options?.sentinels)) return "sentinel";
  return "node";
}

export function isIoredisCluster(client: object): boolean {
  const { isCluster, nodes } = client as ClientShape;
  return isCluster === true && typeof nodes === "function";
}

export function isNodeRedisCluster(client: object): boolean {
  return "masters" in client && typeof (client as ClientShape).nodeClient === "function";
}

/** A sentinel client of ioredis has the shape of a plain one. */
export function isNodeRedisSentinel(client: object): boolean {
  return typeof (client as ClientShape).getSentinelNode === "function";
}

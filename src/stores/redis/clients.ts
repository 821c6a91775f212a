// Which client: one that was given is known by its shape, never by its class, because two copies of a package have two
// classes; by URL whichever package is installed is loaded.

import type { ConnectionOptions } from "node:tls";
import { InvalidArgumentError, UnsupportedError } from "../../core/errors.ts";
import { isMissing } from "../shared/missing-client.ts";
import type { HealthSystem } from "../shared/connection-health.ts";
import { ClusterPort } from "./cluster-port.ts";
import { ioredisClusterPort, nodeRedisClusterPort } from "./given-cluster.ts";
import { IoredisPort, type IoredisClass, isIoredis } from "./ioredis.ts";
import { ioredisDial, ioredisLink, linkOptions as ioredisOptions } from "./ioredis-link.ts";
import type { Surroundings } from "./lane.ts";
import type { Dial } from "./link.ts";
import { type DialNode, NodePort } from "./node-port.ts";
import { isNodeRedis, type NodeRedisModule, NodeRedisPort } from "./node-redis.ts";
import { linkOptions as nodeRedisOptions, nodeRedisDial, nodeRedisLink } from "./node-redis-link.ts";
import { NodeRedisSentinelPort } from "./node-redis-sentinel.ts";
import type { RedisPort } from "./port.ts";
import { SentinelPort } from "./sentinel-port.ts";
import { isIoredisCluster, isNodeRedisCluster, isNodeRedisSentinel } from "./shapes.ts";
import { type Login, readNodesUrl, topologyOfUrl } from "./urls.ts";

export type Driver = "redis" | "ioredis";

type Loaded =
  | { readonly driver: "redis"; readonly module: NodeRedisModule }
  | { readonly driver: "ioredis"; readonly module: IoredisClass };

/** A client that was given, of whatever kind of Redis. */
export function connectWith(client: unknown, around: Surroundings): RedisPort | Promise<RedisPort> {
  const given = Object(client) as object;
  if (isIoredisCluster(given)) return ioredisClusterPort(given, around);
  if (isNodeRedisCluster(given)) return nodeRedisClusterPort(given, around);
  if (isNodeRedisSentinel(given)) return new NodeRedisSentinelPort(given);
  return portOf(client, around.system);
}

/** A client of one node, or of ioredis with sentinels, which has the same shape. */
export function portOf(client: unknown, system: HealthSystem): RedisPort {
  if (typeof client === "object" && client !== null) {
    if (isIoredis(client)) return new IoredisPort(client, system);
    if (isNodeRedis(client)) return new NodeRedisPort(client, system);
  }
  throw new InvalidArgumentError(
    "redis({ client }) takes a client of node-redis (4 to 6) or of ioredis (5 or 6): of one node, of sentinels or of a Cluster",
  );
}

export async function connectTo(url: string, by: By, around: Surroundings): Promise<RedisPort> {
  if (topologyOfUrl(url) === "node") return connectToNode(url, by, around.system);
  return connectToNodes(url, await loaded(by.driver), by.tls ?? {}, around);
}

/** Which package, and what it is told about TLS where the URL asks for it. */
export interface By {
  readonly driver: Driver | undefined;
  readonly tls?: ConnectionOptions;
}

/** One node, and nobody else. */
export async function connectToNode(
  url: string,
  { driver, tls = {} }: By,
  system: HealthSystem,
): Promise<RedisPort> {
  return NodePort.connect(dialUrl(await loaded(driver), url, tls), "", system);
}

function dialUrl({ driver, module }: Loaded, url: string, tls: ConnectionOptions): DialNode {
  if (driver === "redis") {
    // Making a client takes tens of milliseconds, because a class is made with it; duplicating one does not.
    const template = module.createClient({ url, socket: { ...tls } });
    return (cancel) => nodeRedisLink(template.duplicate(nodeRedisOptions(null, tls)), cancel);
  }
  const secure = Object.keys(tls).length === 0 ? {} : { tls };
  return (cancel) => ioredisLink(new module(url, { ...ioredisOptions(null), ...secure }), cancel);
}

/** Sentinel and Cluster are followed by code of our own over either package, so that both behave alike. */
function connectToNodes(
  url: string,
  by: Loaded,
  secure: ConnectionOptions,
  around: Surroundings,
): Promise<RedisPort> {
  const { topology, hosts, master, database, login, sentinel, ...parts } = readNodesUrl(url);
  const tls = parts.tls ? secure : null;
  const node = dialBy(by, tls, login, database);
  if (topology === "cluster") return ClusterPort.connect({ node, keyPrefix: "" }, hosts, around);
  const board = { node, sentinel: dialBy(by, tls, sentinel, 0), keyPrefix: "" };
  return SentinelPort.connect(board, hosts, master, around);
}

function dialBy(
  { driver, module }: Loaded,
  tls: ConnectionOptions | null,
  login: Login,
  database: number,
): Dial {
  if (driver === "redis") {
    // Making a client takes tens of milliseconds, because a class is made with it; duplicating one does not.
    const template = module.createClient({ ...login, database });
    return nodeRedisDial((to) =>
      template.duplicate(nodeRedisOptions(to, tls === null ? {} : { ...tls, tls: true })),
    );
  }
  return ioredisDial(
    (to) => new module({ ...ioredisOptions(to), ...login, db: database, ...(tls === null ? {} : { tls }) }),
  );
}

/** The package to connect with. */
export async function loaded(driver: Driver | undefined): Promise<Loaded> {
  if (driver !== "ioredis") {
    const module = await import(/* webpackIgnore: true */ "redis").catch(nullIfMissing);
    if (module !== null) return { driver: "redis", module: module as unknown as NodeRedisModule };
  }
  if (driver !== "redis") {
    const module = await import(/* webpackIgnore: true */ "ioredis").catch(nullIfMissing);
    if (module !== null) return { driver: "ioredis", module: module.Redis as unknown as IoredisClass };
  }
  throw new UnsupportedError(`the redis store needs a client: npm i ${driver ?? "redis"}`);
}

function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}

// Connects the store: to a client that was given, known by its shape because two copies of a package have two
// classes, or by URL, with connections of our own or with the package that `driver` names.

import type { ConnectionOptions } from "node:tls";
import { InvalidArgumentError, UnsupportedError } from "../../../core/errors.ts";
import { isMissing } from "../../shared/missing-client.ts";
import { type Login, readNodesUrl, topologyOfUrl } from "../options.ts";
import { Cluster } from "../topology/cluster.ts";
import type { Connect, Dial } from "../topology/connection.ts";
import type { ConnectionSystem, TopologyEnv } from "../topology/node-connection.ts";
import { Sentinel } from "../topology/sentinel.ts";
import { SingleNode } from "../topology/single-node.ts";
import { clusterFromIoredis, clusterFromNodeRedis } from "./cluster-from-client.ts";
import { isIoredisCluster, isNodeRedisCluster, isNodeRedisSentinel } from "./detect.ts";
import { GivenClient } from "./given-client.ts";
import { adaptIoredis, connectIoredis, type IoredisClass, ioredisOptions, isIoredis } from "./ioredis.ts";
import {
  adaptNodeRedis,
  connectNodeRedis,
  isNodeRedis,
  type NodeRedisModule,
  nodeRedisOptions,
} from "./node-redis.ts";
import { NodeRedisSentinel } from "./node-redis-sentinel.ts";
import { connectOwn, settingsOfUrl } from "./own-connection.ts";
import type { RedisPort } from "./port.ts";

export type Driver = "redis" | "ioredis";

/** How to connect to a URL. */
export interface UrlOptions {
  /** undefined: connections of our own. */
  readonly driver: Driver | undefined;
  /** Used where the URL asks for TLS. */
  readonly tls?: ConnectionOptions;
}

type LoadedDriver =
  | { readonly driver: "redis"; readonly module: NodeRedisModule }
  | { readonly driver: "ioredis"; readonly module: IoredisClass }
  /** Connections of our own. */
  | { readonly driver: "own" };

/** Connects by a client that was given, of one node, Sentinel or Cluster. */
export function connectByClient(client: unknown, env: TopologyEnv): RedisPort | Promise<RedisPort> {
  const given = Object(client) as object;
  if (isIoredisCluster(given)) return clusterFromIoredis(given, env);
  if (isNodeRedisCluster(given)) return clusterFromNodeRedis(given, env);
  if (isNodeRedisSentinel(given)) return new NodeRedisSentinel(given);
  return portOf(client, env.system);
}

/** A client of one node, or of ioredis with sentinels, which has the same shape. */
export function portOf(client: unknown, system: ConnectionSystem): RedisPort {
  if (typeof client === "object" && client !== null) {
    if (isIoredis(client)) return new GivenClient(adaptIoredis(client), system);
    if (isNodeRedis(client)) return new GivenClient(adaptNodeRedis(client), system);
  }
  // A client of Valkey GLIDE cannot be duplicated, so there is no connection for notifications. It also words
  // the errors of the server in its own way.
  const isGlide = typeof (client as { customCommand?: unknown } | null)?.customCommand === "function";
  throw new InvalidArgumentError(
    "redis({ client }) takes a client of node-redis (4 to 6), ioredis (5 or 6) or iovalkey: " +
      "of one node, of sentinels or of a Cluster" +
      (isGlide ? ". Instead of a client of Valkey GLIDE, give the URL, such as valkey://host:6379" : ""),
  );
}

/**
 * Connects to one node, Sentinel or Cluster. The store follows the primary itself, so that both packages
 * behave alike.
 */
export async function connectByUrl(
  url: string,
  { driver, tls = {} }: UrlOptions,
  env: TopologyEnv,
): Promise<RedisPort> {
  if (topologyOfUrl(url) === "node") return connectToNode(url, { driver, tls }, env.system);
  const loaded = await loadDriver(driver);
  const { topology, hosts, master, database, login, sentinel, isSecure } = readNodesUrl(url);
  const secure = isSecure ? tls : null;
  const dialNode = dialBy(loaded, secure, login, database, env.system);
  if (topology === "cluster") return new Cluster({ seeds: hosts, dial: dialNode }, env).open();
  const dialSentinel = dialBy(loaded, secure, sentinel, 0, env.system);
  return new Sentinel({ sentinels: hosts, master, dialSentinel, dialNode }, env).open();
}

export async function connectToNode(
  url: string,
  { driver, tls = {} }: UrlOptions,
  system: ConnectionSystem,
): Promise<RedisPort> {
  return new SingleNode(connectBy(await loadDriver(driver), url, tls, system), "", system).open();
}

function connectBy(
  loaded: LoadedDriver,
  url: string,
  tls: ConnectionOptions,
  system: ConnectionSystem,
): Connect {
  switch (loaded.driver) {
    case "own": {
      const settings = settingsOfUrl(url, tls, system);
      return (cancel) => connectOwn(settings, cancel);
    }
    case "redis": {
      // Creating a client takes tens of milliseconds, because it creates a class. Duplicating one does not.
      const template = loaded.module.createClient({ url, socket: { ...tls } });
      return (cancel) => connectNodeRedis(template.duplicate(nodeRedisOptions(null, tls)), cancel);
    }
    default: {
      const secure = Object.keys(tls).length === 0 ? {} : { tls };
      const Client = loaded.module;
      return (cancel) => connectIoredis(new Client(url, { ...ioredisOptions(null), ...secure }), cancel);
    }
  }
}

function dialBy(
  loaded: LoadedDriver,
  tls: ConnectionOptions | null,
  login: Login,
  database: number,
  system: ConnectionSystem,
): Dial {
  switch (loaded.driver) {
    case "own":
      return (to, cancel) => connectOwn({ to, login, database, tls, system }, cancel);
    case "redis": {
      const template = loaded.module.createClient({ ...login, database });
      const socket = tls === null ? {} : { ...tls, tls: true };
      return (to, cancel) => connectNodeRedis(template.duplicate(nodeRedisOptions(to, socket)), cancel);
    }
    default: {
      const secure = tls === null ? {} : { tls };
      const Client = loaded.module;
      return (to, cancel) =>
        connectIoredis(new Client({ ...ioredisOptions(to), ...login, db: database, ...secure }), cancel);
    }
  }
}

export async function loadDriver(driver: Driver | undefined): Promise<LoadedDriver> {
  if (driver === undefined) return { driver: "own" };
  if (driver === "redis") {
    const module = await import(/* webpackIgnore: true */ "redis").catch(nullIfMissing);
    if (module !== null) return { driver: "redis", module: module as unknown as NodeRedisModule };
  } else {
    const module = await import(/* webpackIgnore: true */ "ioredis").catch(nullIfMissing);
    if (module !== null) return { driver: "ioredis", module: module.Redis as unknown as IoredisClass };
  }
  throw new UnsupportedError(`the redis store needs a client: npm i ${driver}`);
}

function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}

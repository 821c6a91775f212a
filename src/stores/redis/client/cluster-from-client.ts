// A Cluster client that was given lends its settings. The connections are our own, one to every primary:
// node-redis never looks for a new primary while the old one does not answer, and both clients queue commands
// that their callers have given up.

import { StoreUnavailableError } from "../../../core/errors.ts";
import { Cluster } from "../topology/cluster.ts";
import { type Address, type Dial, nameOf } from "../topology/connection.ts";
import type { TopologyEnv } from "../topology/node-connection.ts";
import { connectIoredis, type IoredisClient, ioredisOptions } from "./ioredis.ts";
import { connectNodeRedis, type NodeRedisClient, nodeRedisOptions } from "./node-redis.ts";

/** `natMap` of ioredis, `nodeAddressMap` of node-redis. */
type AddressMap = Readonly<Record<string, Address>> | ((name: string) => Address | null | undefined);

interface IoredisCluster {
  readonly options: { readonly keyPrefix?: string; readonly natMap?: AddressMap };
  call(command: string): Promise<unknown>;
  nodes(role: "master"): readonly (IoredisClient & { readonly options: Partial<Address> })[];
}

interface NodeRedisCluster {
  readonly masters: readonly Partial<Address>[];
  /** 5 and later. */
  readonly _options?: { readonly nodeAddressMap?: AddressMap };
  nodeClient(node: object): NodeRedisClient | Promise<NodeRedisClient>;
}

export async function clusterFromIoredis(client: object, env: TopologyEnv): Promise<Cluster> {
  const cluster = client as IoredisCluster;
  // A client that connects on its first command has to be given one.
  if (cluster.nodes("master").length === 0) await cluster.call("PING");
  const nodes = cluster.nodes("master");
  const [sample] = nodes;
  if (sample === undefined) throw notConnected();
  const { keyPrefix = "", natMap } = cluster.options;
  const dial: Dial = (to, cancel) =>
    connectIoredis(sample.duplicate({ ...ioredisOptions(to), keyPrefix }), cancel);
  const seeds = nodes.map(({ options }) => addressIn(options));
  return new Cluster({ seeds, dial: translate(dial, natMap), keyPrefix }, env).open();
}

export async function clusterFromNodeRedis(client: object, env: TopologyEnv): Promise<Cluster> {
  const cluster = client as NodeRedisCluster;
  const [first] = cluster.masters ?? [];
  if (first === undefined) throw notConnected();
  const sample = await cluster.nodeClient(first);
  const socket = sample.options?.socket ?? {};
  const dial: Dial = (to, cancel) => connectNodeRedis(sample.duplicate(nodeRedisOptions(to, socket)), cancel);
  const seeds = cluster.masters.map(addressIn);
  return new Cluster({ seeds, dial: translate(dial, cluster._options?.nodeAddressMap) }, env).open();
}

function addressIn({ host = "127.0.0.1", port = 0 }: Partial<Address>): Address {
  return { host, port };
}

/** Where nodes know each other by other addresses than we do. */
function translate(dial: Dial, map: AddressMap | undefined): Dial {
  if (map === undefined) return dial;
  return (to, cancel) => dial((typeof map === "function" ? map(nameOf(to)) : map[nameOf(to)]) ?? to, cancel);
}

function notConnected(): StoreUnavailableError {
  return new StoreUnavailableError("the Cluster client is not connected: call its connect() first");
}

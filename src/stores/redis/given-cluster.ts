// A Cluster client that was given: it lends its settings. Connections are our own, one to every primary: node-redis never looks
// for a new primary while the old one does not answer, and both queue commands that their callers have given up.

import { StoreUnavailableError } from "../../core/errors.ts";
import { ClusterPort } from "./cluster-port.ts";
import type { IoredisClient } from "./ioredis.ts";
import { ioredisDial, linkOptions as ioredisOptions } from "./ioredis-link.ts";
import type { Surroundings } from "./lane.ts";
import type { Address, Dial } from "./link.ts";
import { nameOf } from "./link.ts";
import type { NodeRedisClient } from "./node-redis.ts";
import { linkOptions as nodeRedisOptions, nodeRedisDial } from "./node-redis-link.ts";

type AddressMap = Readonly<Record<string, Address>> | ((name: string) => Address | null | undefined);

interface IoredisCluster {
  readonly status: string;
  readonly options: { readonly keyPrefix?: string; readonly natMap?: AddressMap };
  call(command: string): Promise<unknown>;
  nodes(role: "master"): readonly (IoredisClient & { readonly options: Partial<Address> })[];
}

interface NodeRedisCluster {
  readonly isOpen?: boolean;
  readonly masters: readonly Partial<Address>[];
  /** 5 and later. */
  readonly _options?: { readonly nodeAddressMap?: AddressMap };
  nodeClient(node: object): NodeRedisClient | Promise<NodeRedisClient>;
}

export async function ioredisClusterPort(client: object, around: Surroundings): Promise<ClusterPort> {
  const cluster = client as IoredisCluster;
  // One that connects on its first command has to be given one.
  if (cluster.nodes("master").length === 0) await cluster.call("PING");
  const nodes = cluster.nodes("master");
  const [sample] = nodes;
  if (sample === undefined) throw notConnected();
  const { keyPrefix = "", natMap } = cluster.options;
  const dial = ioredisDial((to) => sample.duplicate({ ...ioredisOptions(to), keyPrefix }));
  const seeds = nodes.map(({ options }) => ({ host: options.host ?? "127.0.0.1", port: options.port ?? 0 }));
  return ClusterPort.connect({ node: mapped(dial, natMap), keyPrefix }, seeds, around);
}

export async function nodeRedisClusterPort(client: object, around: Surroundings): Promise<ClusterPort> {
  const cluster = client as NodeRedisCluster;
  const [first] = cluster.masters ?? [];
  if (first === undefined) throw notConnected();
  const sample = await cluster.nodeClient(first);
  const socket = sample.options?.socket ?? {};
  const dial = nodeRedisDial((to) => sample.duplicate(nodeRedisOptions(to, socket)));
  const seeds = cluster.masters.map(({ host = "127.0.0.1", port = 0 }) => ({ host, port }));
  return ClusterPort.connect(
    { node: mapped(dial, cluster._options?.nodeAddressMap), keyPrefix: "" },
    seeds,
    around,
  );
}

/** Where nodes are known to each other under other addresses than to us. */
function mapped(dial: Dial, map: AddressMap | undefined): Dial {
  if (map === undefined) return dial;
  return (to, cancel) => dial((typeof map === "function" ? map(nameOf(to)) : map[nameOf(to)]) ?? to, cancel);
}

function notConnected(): StoreUnavailableError {
  return new StoreUnavailableError("the Cluster client is not connected: call its connect() first");
}

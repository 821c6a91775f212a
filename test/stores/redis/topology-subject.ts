// A Redis with several nodes as the subject of the suite: with sentinels, where a restart is a failover, and a Cluster, where
// every node is killed and comes back with what it had acknowledged.

import { join } from "node:path";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import type { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import {
  redis,
  redisClusterGuarantees,
  redisSentinelGuarantees,
  type RedisOptions,
} from "../../../src/stores/redis/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";
import type { Driver } from "./subject.ts";

interface Nodes {
  readonly url: string;
  /** Those that hold keys of their own. */
  primaries(): Promise<readonly RedisNode[]>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];

export function sentinelSubject(driver?: Driver): {
  readonly store: Subject;
  readonly server: Server;
} {
  return subject("redis with sentinels", driver, redisSentinelGuarantees, async () => {
    const servers = await startSentinel({ args: DURABLE });
    return {
      url: servers.url,
      primaries: async () => [await masterOf(servers)],
      restart: () => failover(servers),
      stop: () => servers.stop(),
    };
  });
}

export function clusterSubject(driver?: Driver): {
  readonly store: Subject;
  readonly server: Server;
} {
  return subject("redis Cluster", driver, redisClusterGuarantees, async () => {
    const servers = await startCluster({ args: DURABLE });
    return {
      url: servers.url,
      primaries: () => Promise.resolve(servers.nodes),
      restart: () => restartAll(servers),
      stop: () => servers.stop(),
    };
  });
}

function subject(
  name: string,
  driver: Driver,
  guarantees: Subject["guarantees"],
  start: () => Promise<Nodes>,
): { readonly store: Subject; readonly server: Server } {
  let nodes: Nodes | null = null;
  const url = (): string => nodes?.url ?? "";
  const options = (): RedisOptions => ({ url: url(), driver });
  return {
    store: {
      name: `${name}${driver === undefined ? "" : `, ${driver}`}`,
      guarantees,
      create: () => redis(options()),
      child: () => ({
        module: join(import.meta.dirname, "conformance-child.ts"),
        args: [url(), driver ?? ""],
      }),
      async footprint(namespace) {
        const primaries = (await nodes?.primaries()) ?? [];
        const replies = await Promise.all(primaries.map((node) => node.ask("KEYS", `${namespace}:*`)));
        return replies.reduce((sum, reply) => sum + Number(/^\*(\d+)/.exec(reply)?.[1]), 0);
      },
    },
    server: {
      async start() {
        nodes = await start();
      },
      restart: async () => nodes?.restart(),
      stop: async () => nodes?.stop(),
    },
  };
}

async function masterOf(servers: SentinelServers): Promise<RedisNode> {
  const master = await servers.master();
  if (master === null) throw new Error("the sentinels do not agree on a master");
  return master;
}

async function failover(servers: SentinelServers): Promise<void> {
  const master = await masterOf(servers);
  await master.kill();
  let next: RedisNode | null = master;
  while (next === null || next === master) next = await servers.master();
  await master.start();
  await servers.settled();
}

async function restartAll(servers: ClusterServers): Promise<void> {
  await Promise.all(servers.nodes.map((node) => node.kill()));
  await Promise.all(servers.nodes.map((node) => node.start()));
  await servers.settled();
}

// A Redis with sentinels: its primary is killed, frozen or asked to step down, and another one takes its place. Replication is
// asynchronous, so holders may overlap; the fence must not fail.

import { agreed, type RedisNode } from "../../scripts/servers/redis-node.ts";
import { type SentinelServers, sentinelUrl, startSentinel } from "../../scripts/servers/redis-sentinel.ts";
import { redisSentinelGuarantees } from "../../src/stores/redis/index.ts";
import { eviction } from "./eviction.ts";
import { versionOf } from "./redis-version.ts";
import { redisClock, type ServerClock, serverClocks } from "./server-clock.ts";
import type { Target, Trick } from "./target.ts";

const FAILOVER = "failover";
/** That hold data. */
const NODES = 3;

export async function redisSentinelTarget(folder: string, fault: string): Promise<Target> {
  const clocks = await serverClocks(fault, folder, NODES);
  const servers = await startSentinel({ env: (at) => clocks[at]?.env ?? {} });
  return {
    url: servers.url,
    guarantees: redisSentinelGuarantees,
    servers: [],
    told: [...servers.sentinels, ...servers.nodes].map(({ port }) => port),
    through: (ports) => sentinelUrl(ports.slice(0, servers.sentinels.length)),
    listens: /subscribe/i,
    clocks: servers.nodes.map(({ name, port }, at) => redisClock(name, port, clocks[at] as ServerClock)),
    tricks: {
      eviction: eviction(async () => [{ port: (await primaryOf(servers)).port, tag: "" }]),
      failover: killed(servers),
      "primary-freeze": frozen(servers),
      "planned-failover": asked(servers),
    },
    settled: () => servers.settled(),
    version: await versionOf(servers.nodes[0] as RedisNode, "with sentinels"),
    stop: () => servers.stop(),
  };
}

async function primaryOf(servers: SentinelServers): Promise<RedisNode> {
  await servers.settled();
  return (await servers.master()) as RedisNode;
}

function replaced(servers: SentinelServers, old: RedisNode): Promise<void> {
  return agreed("another primary is chosen", async () => {
    const now = await servers.master();
    return now !== null && now !== old;
  });
}

/** kill -9; back again as a replica after a while. */
function killed(servers: SentinelServers): Trick {
  let old: RedisNode | null = null;
  return {
    everyMs: [500, 1_500],
    forMs: [0, 1_000],
    survives: FAILOVER,
    async begin() {
      old = await primaryOf(servers);
      await old.kill();
      await replaced(servers, old);
    },
    async end() {
      await old?.start();
      await servers.settled();
    },
  };
}

/** For long enough that it is replaced; then it wakes up and believes that it is the primary. */
function frozen(servers: SentinelServers): Trick {
  let old: RedisNode | null = null;
  return {
    everyMs: [500, 1_500],
    forMs: [0, 500],
    survives: FAILOVER,
    async begin() {
      old = await primaryOf(servers);
      old.signal("SIGSTOP");
      await replaced(servers, old);
    },
    async end() {
      old?.signal("SIGCONT");
      await servers.settled();
    },
  };
}

function asked(servers: SentinelServers): Trick {
  return {
    everyMs: [500, 1_500],
    forMs: [0, 500],
    survives: FAILOVER,
    begin: () => servers.failover(),
    end: () => servers.settled(),
  };
}

// A Redis Cluster of three primaries with a replica each: primaries are killed and replaced, and slots move from one to
// another. Replication is asynchronous, so after a failover holders may overlap; a slot that moves must not be noticed.

import { type ClusterServers, startCluster } from "../../scripts/servers/redis-cluster.ts";
import { agreed, type RedisNode } from "../../scripts/servers/redis-node.ts";
import { redisClusterGuarantees } from "../../src/stores/redis/index.ts";
import { slotOf } from "../../src/stores/redis/topology/slots.ts";
import { LOCKS } from "../client/plan.ts";
import { type Evicting, eviction } from "./eviction.ts";
import { versionOf } from "./redis-version.ts";
import { redisClock, CLOCK_FAULTS, type ServerClock, serverClocks } from "./server-clock.ts";
import type { Target, Trick } from "./target.ts";

/** The server's own default. With less, a clock that is set makes nodes believe that the others are gone. */
const CALM = ["--cluster-node-timeout", "15000"];
const NODES = 6;

export async function redisClusterTarget(folder: string, fault: string): Promise<Target> {
  const clocks = await serverClocks(fault, folder, NODES);
  const servers = await startCluster({
    replicas: true,
    env: (at) => clocks[at]?.env ?? {},
    args: CLOCK_FAULTS.includes(fault) ? CALM : [],
  });
  return {
    url: servers.url,
    guarantees: redisClusterGuarantees,
    servers: [],
    told: servers.nodes.map(({ port }) => port),
    through: (ports) => `redis+cluster://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`,
    listens: /subscribe/i,
    clocks: servers.nodes.map(({ name, port }, at) => redisClock(name, port, clocks[at] as ServerClock)),
    tricks: {
      failover: killed(servers),
      "primary-freeze": frozen(servers),
      "slot-move": moved(servers),
      eviction: eviction(evicting(servers)),
    },
    settled: () => servers.settled(),
    version: await versionOf(servers.nodes[0] as RedisNode, "Cluster"),
    stop: () => servers.stop(),
  };
}

function replaced(servers: ClusterServers, slot: number, old: RedisNode): Promise<void> {
  return agreed("another primary is chosen", async () => {
    const now = await servers.masterOf(slot);
    return now !== null && now !== old;
  });
}

async function primaryOf(servers: ClusterServers, slot: number): Promise<RedisNode> {
  await servers.settled();
  const node = await servers.masterOf(slot);
  if (node === null) throw new Error(`nobody serves slot ${slot}`);
  return node;
}

/** The keys in turn. */
function inTurn(): () => number {
  let turn = 0;
  return () => slotOf(LOCKS[turn++ % LOCKS.length] as string);
}

/** The primary of each key in turn. */
function evicting(servers: ClusterServers): () => Promise<Evicting[]> {
  let turn = 0;
  return async () => {
    const key = LOCKS[turn++ % LOCKS.length] as string;
    const { port } = await primaryOf(servers, slotOf(key));
    return [{ port, tag: `{${key}}` }];
  };
}

/** kill -9 of the primary of a key; back again as a replica after a while. */
function killed(servers: ClusterServers): Trick {
  const next = inTurn();
  let old: RedisNode | null = null;
  return {
    everyMs: [500, 1_500],
    forMs: [0, 1_000],
    survives: "failover",
    async begin() {
      const slot = next();
      const primary = await primaryOf(servers, slot);
      old = primary;
      await primary.kill();
      await replaced(servers, slot, primary);
    },
    async end() {
      await old?.start();
      await servers.settled();
    },
  };
}

/** For long enough that it is replaced; then it wakes up and believes that it is the primary. */
function frozen(servers: ClusterServers): Trick {
  const next = inTurn();
  let old: RedisNode | null = null;
  return {
    everyMs: [500, 1_500],
    forMs: [0, 500],
    survives: "failover",
    async begin() {
      const slot = next();
      old = await primaryOf(servers, slot);
      old.signal("SIGSTOP");
      await replaced(servers, slot, old);
    },
    async end() {
      old?.signal("SIGCONT");
      await servers.settled();
    },
  };
}

/** The slot of a key goes to another primary, key by key, and is half-way for a while. */
function moved(servers: ClusterServers): Trick {
  const next = inTurn();
  let move: { from: RedisNode; to: RedisNode; slot: number } | null = null;
  return {
    everyMs: [50, 300],
    forMs: [0, 1_000],
    survives: "slot moved",
    async begin() {
      const slot = next();
      const from = await primaryOf(servers, slot);
      const to = await otherPrimary(servers, from);
      move = { from, to, slot };
      await to.ask("CLUSTER", "SETSLOT", String(slot), "IMPORTING", await idOf(from));
      await from.ask("CLUSTER", "SETSLOT", String(slot), "MIGRATING", await idOf(to));
    },
    async end() {
      if (move === null) return;
      const { from, to, slot } = move;
      await moveKeys(from, to, slot);
      const owner = await idOf(to);
      for (const node of new Set([to, from, ...servers.nodes])) {
        // Replicas hear of it from their primary.
        await node.ask("CLUSTER", "SETSLOT", String(slot), "NODE", owner).catch(() => "");
      }
      await agreed("everybody knows the new owner", async () => (await servers.masterOf(slot)) === to);
    },
  };
}

async function moveKeys(from: RedisNode, to: RedisNode, slot: number): Promise<void> {
  for (;;) {
    const reply = await from.ask("CLUSTER", "GETKEYSINSLOT", String(slot), "10");
    const keys = [...reply.matchAll(/\$\d+\r\n([^\r]+)\r\n/g)].map(([, key]) => key as string);
    if (keys.length === 0) return;
    await from.ask("MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...keys);
  }
}

async function otherPrimary(servers: ClusterServers, not: RedisNode): Promise<RedisNode> {
  for (const node of servers.nodes) {
    if (node !== not && /role:master/.test(await node.ask("INFO", "replication"))) return node;
  }
  throw new Error("there is no other primary");
}

async function idOf(node: RedisNode): Promise<string> {
  return /\r\n(\w{40})\r\n/.exec(await node.ask("CLUSTER", "MYID"))?.[1] ?? "";
}

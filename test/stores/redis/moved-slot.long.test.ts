// A slot of a Cluster moves while the store has connections of its own to the nodes (`replicas`, and without
// scripts): the other keys of the old node work on, also after those connections were made again.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import type { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { slotOf } from "../../../src/stores/redis/topology/slots.ts";
import { moveSlot } from "./outages.ts";

let cluster: ClusterServers;

beforeAll(async () => {
  cluster = await startCluster({ replicas: true });
});

afterAll(() => cluster?.stop());

/** The nodes that own slots, with what they own. */
async function owners(): Promise<{ readonly node: RedisNode; owns(slot: number): boolean }[]> {
  const found = [];
  for (const node of cluster.nodes) {
    const own = /myself,master .* connected(.*)/.exec(await node.ask("CLUSTER", "NODES"))?.[1] ?? "";
    const ranges = [...own.matchAll(/ (\d+)(?:-(\d+))?/g)].map(([, from, to = from]) =>
      [from, to].map(Number),
    );
    const owns = (slot: number): boolean =>
      ranges.some(([from, to]) => (from as number) <= slot && slot <= (to as number));
    if (ranges.length > 0) found.push({ node, owns });
  }
  return found;
}

describe.each([
  { replicas: 1 },
  { driver: "redis", replicas: 1 },
  { driver: "ioredis", replicas: 1 },
  { scripts: false },
  { driver: "redis", scripts: false },
  { driver: "ioredis", scripts: false },
] as const)("%o", (options) => {
  it("other keys of the old node are granted after it (P10)", async () => {
    const locks = createLocks(redis({ url: cluster.url, ...options }), { ttl: "3s" });
    const [first, second] = (await owners()) as [
      { node: RedisNode; owns(slot: number): boolean },
      { node: RedisNode },
    ];
    const keys = Array.from({ length: 200 }, (_none, n) => `moved ${n}`).filter((key) =>
      first.owns(slotOf(key)),
    );
    const [moved, stayed] = keys as [string, string];
    for (const key of [moved, stayed]) await (await locks.acquire(key, { wait: "60s" })).release();
    await moveSlot(cluster, slotOf(moved), first.node, second.node, 0);
    for (const key of [moved, stayed, moved]) {
      await first.node.ask("CLIENT", "KILL", "TYPE", "normal");
      const lease = await locks.acquire(key, { wait: "60s" });
      expect(await lease.release()).toBe(true);
    }
    await locks.close();
  });
});

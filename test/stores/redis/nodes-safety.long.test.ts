// A Redis with several nodes that could drop locks is refused by name, whichever node it is; what else is
// found is said for every node (P19).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import type { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";

let sentinels: SentinelServers;
let cluster: ClusterServers;

beforeAll(async () => {
  [sentinels, cluster] = await Promise.all([startSentinel(), startCluster()]);
});

afterAll(async () => {
  await Promise.all([sentinels?.stop(), cluster?.stop()]);
});

async function evicting(node: RedisNode, run: () => Promise<void>): Promise<void> {
  await node.ask("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru");
  try {
    await run();
  } finally {
    await node.ask("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction");
  }
}

async function findings(url: string): Promise<string[]> {
  const locks = createLocks(url);
  try {
    return (await locks.check()).map(({ id, level, what }) => `${id} ${level} ${what}`);
  } finally {
    await locks.close();
  }
}

describe("a Redis with several nodes", () => {
  it.each([undefined, "redis", "ioredis"] as const)(
    "is refused when one primary evicts, driver %s",
    async (driver) => {
      await evicting(cluster.nodes[2] as RedisNode, async () => {
        const locks = createLocks(redis({ url: cluster.url, driver }));
        await expect(locks.tryAcquire("k")).rejects.toMatchObject({
          code: "ERR_STORE_UNSAFE",
          setting: "maxmemory-policy",
        });
        await locks.close();
      });
      await evicting(sentinels.nodes[0] as RedisNode, async () => {
        const locks = createLocks(redis({ url: sentinels.url, driver }));
        await expect(locks.tryAcquire("k")).rejects.toMatchObject({ code: "ERR_STORE_UNSAFE" });
        await locks.close();
      });
    },
  );

  it("with a replica that would evict is a danger that is found", async () => {
    const replica = sentinels.nodes[1] as RedisNode;
    expect(await findings(sentinels.url)).not.toContainEqual(expect.stringContaining("eviction"));
    await evicting(replica, async () => {
      expect(await findings(sentinels.url)).toContain(
        `eviction danger ${replica.name}: maxmemory-policy is allkeys-lru`,
      );
    });
  });

  it("whose primaries have no replica is a warning for each of them", async () => {
    const found = await findings(cluster.url);
    for (const { name } of cluster.nodes)
      expect(found).toContain(`replicas warning ${name}: this primary has no replica`);
    const withReplicas = await findings(sentinels.url);
    expect(withReplicas).not.toContainEqual(expect.stringContaining("no replica"));
    const behind = new RegExp(
      `^asynchronous-replication warning ${sentinels.nodes[0]?.name}: .* behind the write`,
    );
    expect(withReplicas).toContainEqual(expect.stringMatching(behind));
    expect(await findings(`${sentinels.url}?replicas=1`)).not.toContainEqual(expect.stringMatching(behind));
  });

  it("is told from one node: each URL names the other one's cure (P17)", async () => {
    const node = createLocks(`redis://${cluster.nodes[0]?.name}`);
    await expect(node.tryAcquire("k")).rejects.toMatchObject({
      code: "ERR_LOCK_UNSUPPORTED",
      message: expect.stringContaining("redis+cluster://") as string,
    });
    const alone = createLocks(`redis+cluster://${sentinels.nodes[0]?.name}`);
    await expect(alone.tryAcquire("k")).rejects.toMatchObject({
      code: "ERR_LOCK_UNSUPPORTED",
      message: expect.stringContaining("redis://") as string,
    });
    await node.close();
    await alone.close();
  });

  it.each(["redis", "ioredis"] as const)(
    "honours the user of the URL, with %s, and tries a wrong password once",
    async (driver) => {
      const may = ["~holdfast:*", "&holdfast:*", "+@all", "-@dangerous", "+info", "+cluster|slots"];
      for (const { nodes, url } of [sentinels, cluster]) {
        for (const node of nodes) await node.ask("ACL", "SETUSER", "lock", "on", ">pa:ss", ...may);
        const locks = createLocks(redis({ url: url.replace("://", "://lock:pa%3Ass@"), driver }));
        await (await locks.acquire("k")).release();
        await locks.close();
        const wrong = createLocks(redis({ url: url.replace("://", "://lock:no@"), driver }));
        await expect(wrong.tryAcquire("k")).rejects.toMatchObject({
          code: "ERR_STORE_UNAVAILABLE",
          retryable: false,
        });
        await wrong.close();
      }
    },
  );
});

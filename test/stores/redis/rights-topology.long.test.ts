// The users of docs/operations/security.md on a Redis with Sentinel and on a Cluster can lock.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import { askRedis } from "../../../scripts/servers/redis-node.ts";
import { type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { exercise } from "../../security/exercise.ts";
import { commands, recipe } from "../../security/recipes.ts";

const LOGIN = "://locks:secret@";

describe("users of a Redis with several nodes", () => {
  let sentinels: SentinelServers;
  let cluster: ClusterServers;

  beforeAll(async () => {
    [sentinels, cluster] = await Promise.all([startSentinel(), startCluster()]);
    for (const node of [...sentinels.nodes, ...cluster.nodes])
      for (const words of commands(recipe("redis", "scripts"))) await node.ask(...words);
    for (const node of cluster.nodes)
      for (const words of commands(recipe("redis", "cluster"))) await node.ask(...words);
    for (const { port } of sentinels.sentinels)
      for (const words of commands(recipe("redis", "sentinel"))) {
        expect(await askRedis(port, ...words)).toContain("OK");
        // Nobody gets in without a login from now on, the sentinels themselves included.
        expect(await askRedis(port, "ACL", "SETUSER", "default", "off")).toContain("OK");
      }
  });

  afterAll(async () => {
    await Promise.all([sentinels?.stop(), cluster?.stop()]);
  });

  it.each(["redis", "ioredis"] as const)("can do everything, with %s", async (driver) => {
    const url = `${sentinels.url.replace("://", LOGIN)}?sentinelUsername=finder&sentinelPassword=secret`;
    expect((await exercise(redis({ url, driver }))).failed).toEqual([]);
    expect((await exercise(redis({ url: cluster.url.replace("://", LOGIN), driver }))).failed).toEqual([]);
  });
});

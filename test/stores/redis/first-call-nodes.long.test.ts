// Redis with Sentinel and Redis Cluster, by URL with each client: all nodes are killed and started again with
// their data.

import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import { type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { describeFirstCallAfterRestart } from "../../support/first-call-after-restart.ts";

/** With any other setting Redis delays writes while the disk is busy, and forgets them when it is killed. */
const DURABLE = { args: ["--appendonly", "yes", "--appendfsync", "always"] };

for (const driver of [undefined, "redis", "ioredis"] as const) {
  for (const [name, start] of [
    ["Sentinel", startSentinel],
    ["Cluster", startCluster],
  ] as const) {
    let servers: SentinelServers | ClusterServers;
    describeFirstCallAfterRestart(
      `${name}, driver ${driver ?? "none"}`,
      async () => {
        servers = await start(DURABLE);
        return {
          locks: "kept",
          open: () => createLocks(redis({ url: servers.url, driver })),
          async kill() {
            await Promise.all(servers.nodes.map((node) => node.kill()));
          },
          async start() {
            await Promise.all(servers.nodes.map((node) => node.start()));
            await servers.settled();
          },
        };
      },
      () => servers.stop(),
    );
  }
}

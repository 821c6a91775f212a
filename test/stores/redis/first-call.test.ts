// One Redis that keeps every write, killed and started again, by URL with each client.

import { Proxy } from "../../../faults/proxy.ts";
import { findProgram } from "../../../scripts/servers/packages.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { redisProgram } from "../../../scripts/servers/redis.ts";
import { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { describeFirstCallAfterRestart } from "../../support/first-call-after-restart.ts";

/** With any other setting Redis delays writes while the disk is busy, and forgets them when it is killed. */
const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];

/** Long enough for the longest pause between two tries to reconnect. */
const DOWN_MS = 3_000;

for (const [driver, hidden] of [
  [undefined, false],
  [undefined, true],
  ["redis", false],
  ["redis", true],
  ["ioredis", false],
  ["ioredis", true],
] as const) {
  let node: RedisNode;
  describeFirstCallAfterRestart(
    `driver ${driver ?? "none"}${hidden ? ", that the client has not noticed" : ""}`,
    async () => {
      const program = await findProgram(redisProgram);
      node = await RedisNode.start({ port: await freePort(), args: DURABLE, program });
      const proxy = await Proxy.listen({ host: "127.0.0.1", port: node.port });
      const port = hidden ? proxy.port : node.port;
      return {
        ...(hidden ? { proxies: [proxy] } : { downMs: DOWN_MS }),
        locks: "kept",
        open: () => createLocks(redis({ url: `redis://127.0.0.1:${port}`, driver })),
        kill: () => node.kill(),
        async start() {
          await node.start();
          await node.ask("PING");
        },
      };
    },
    () => node.stop(),
  );
}

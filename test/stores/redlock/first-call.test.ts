// Five Redis nodes that keep every write, three of which are killed and started again.

import { Proxy } from "../../../faults/proxy.ts";
import { createLocks } from "../../../src/index.ts";
import { redlock } from "../../../src/stores/redlock/index.ts";
import { Masters } from "./subject.ts";
import { describeFirstCallAfterRestart, TTL } from "../../support/first-call-after-restart.ts";

const MAJORITY = [0, 1, 2];
/** Long enough for the longest pause between two tries to reconnect. */
const DOWN_MS = 3_000;

for (const [driver, hidden] of [
  ["redis", false],
  ["redis", true],
  ["ioredis", false],
  ["ioredis", true],
] as const) {
  let masters: Masters;
  describeFirstCallAfterRestart(
    `driver ${driver}${hidden ? ", that the client has not noticed" : ""}`,
    async () => {
      masters = new Masters();
      await masters.start();
      const { ports } = masters;
      const proxies = await Promise.all(ports.map((port) => Proxy.listen({ host: "127.0.0.1", port })));
      const nodes = hidden ? proxies.map(({ port }) => `redis://127.0.0.1:${port}`) : masters.urls;
      return {
        locks: "kept",
        ...(hidden ? { proxies, partly: true } : { downMs: DOWN_MS }),
        open: () => createLocks(redlock({ nodes, driver, maxTtl: TTL }), { allow: ["fresh-nodes"] }),
        async kill() {
          await Promise.all(MAJORITY.map((at) => masters.killOne(at)));
        },
        async start() {
          await Promise.all(MAJORITY.map((at) => masters.startOne(at)));
          await Promise.all(MAJORITY.map((at) => masters.ask(at, "PING")));
        },
      };
    },
    () => masters.stop(),
  );
}

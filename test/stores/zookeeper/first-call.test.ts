// One ZooKeeper server, killed and started again with its data. Sessions continue after the restart.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Proxy } from "../../../faults/proxy.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { modeOf, startZooKeeper } from "../../../scripts/servers/zookeeper.ts";
import { createLocks } from "../../../src/index.ts";
import { zookeeper } from "../../../src/stores/zookeeper/index.ts";
import { describeFirstCallAfterRestart } from "../../support/first-call-after-restart.ts";
import { until } from "../../support/store-calls.ts";

/** Longer than a restart takes on a loaded machine, because the lock ends with its session. */
const SESSION_MS = 60_000;

for (const hidden of [false, true]) {
  let server: RunningServer;
  let dataFolder: string;
  describeFirstCallAfterRestart(
    `one server${hidden ? ", that the client has not noticed" : ""}`,
    async () => {
      const port = await freePort();
      dataFolder = mkdtempSync(join(tmpdir(), "holdfast-zookeeper-data-"));
      const start = (): Promise<RunningServer> => startZooKeeper({ own: true, port, dataFolder });
      server = await start();
      const proxy = await Proxy.listen({ host: "127.0.0.1", port });
      return {
        locks: "kept",
        ...(hidden ? { proxies: [proxy] } : {}),
        open: () =>
          createLocks(
            zookeeper({
              servers: [`127.0.0.1:${hidden ? proxy.port : port}`],
              sessionTimeout: SESSION_MS,
            }),
          ),
        async kill() {
          server.kill("SIGKILL");
          await server.stop();
        },
        async start() {
          server = await start();
          await until("the server serves", async () => (await modeOf(port)) === "standalone", 60_000);
        },
      };
    },
    async () => {
      await server.stop();
      rmSync(dataFolder, { recursive: true, force: true });
    },
  );
}

// MariaDB, killed and started again with its data, in both modes of the store.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Proxy } from "../../../faults/proxy.ts";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks } from "../../../src/index.ts";
import { describeFirstCallAfterRestart } from "../../support/first-call-after-restart.ts";
import { until } from "../../support/store-calls.ts";

/**
 * The server reports its uptime in whole seconds: the store takes starts less than 3 s apart for the same
 * one.
 */
const UPTIME_S = 5;

for (const [mode, locks, hidden] of [
  ["table", "kept", false],
  ["table", "kept", true],
  ["row", "lost", false],
  ["row", "lost", true],
] as const) {
  let node: MariadbNode;
  describeFirstCallAfterRestart(
    `mode ${mode}${hidden ? ", that the client has not noticed" : ""}`,
    async () => {
      node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, {});
      await node.start();
      const proxy = await Proxy.listen({ host: "127.0.0.1", port: node.port });
      const url = hidden ? node.url.replace(String(node.port), String(proxy.port)) : node.url;
      return {
        locks,
        ...(hidden ? { proxies: [proxy] } : {}),
        open: () => createLocks(`${url}?mode=${mode}`),
        async kill() {
          await until("an uptime that tells two starts apart", () => hasRunFor(node, UPTIME_S), 60_000);
          await node.kill();
        },
        async start() {
          await node.start();
          await node.query("SELECT 1");
        },
      };
    },
    () => node.stop(),
  );
}

async function hasRunFor(node: MariadbNode, seconds: number): Promise<boolean> {
  const [status] = await node.query("SHOW GLOBAL STATUS LIKE 'Uptime'");
  return Number(status?.["Value"]) >= seconds;
}

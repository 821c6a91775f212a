// PostgreSQL, killed and started again with its data, in both modes of the store.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Proxy } from "../../../faults/proxy.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { startPostgres } from "../../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks } from "../../../src/index.ts";
import { describeFirstCallAfterRestart } from "../../support/first-call-after-restart.ts";
import { openPool } from "../../support/pg-pool.ts";

for (const [mode, locks, hidden] of [
  ["table", "kept", false],
  ["table", "kept", true],
  ["advisory", "lost", false],
  ["advisory", "lost", true],
] as const) {
  let server: RunningServer;
  let dataFolder: string;
  describeFirstCallAfterRestart(
    `mode ${mode}${hidden ? ", that the client has not noticed" : ""}`,
    async () => {
      const port = await freePort();
      dataFolder = mkdtempSync(join(tmpdir(), "holdfast-postgres-data-"));
      const start = (): Promise<RunningServer> => startPostgres({ own: true, port, dataFolder });
      server = await start();
      const proxy = await Proxy.listen({ host: "127.0.0.1", port });
      const url = hidden ? server.url.replace(String(port), String(proxy.port)) : server.url;
      return {
        locks,
        ...(hidden ? { proxies: [proxy] } : {}),
        open: () => createLocks(`${url}?mode=${mode}`),
        async kill() {
          server.kill("SIGKILL");
          await server.stop();
        },
        async start() {
          server = await start();
          const pool = openPool(server.url, { max: 1 });
          await pool.query("SELECT 1");
          await pool.end();
        },
      };
    },
    async () => {
      await server.stop();
      rmSync(dataFolder, { recursive: true, force: true });
    },
  );
}

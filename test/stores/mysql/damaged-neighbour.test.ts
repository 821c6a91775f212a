// One row that cannot be read among many that are renewed together.

import { afterAll, beforeAll, it } from "vitest";
import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks } from "../../../src/index.ts";
import { expectOthersRenewed } from "../../support/damaged-neighbour.ts";
import { Asking } from "./client.ts";

let server: RunningServer;
let asking: Asking;

beforeAll(async () => {
  server = await startMariadb({ own: true });
  asking = await Asking.open(server.url);
});

afterAll(async () => {
  asking?.close();
  await server?.stop();
});

it("a damaged row costs no other lease its renewal (P17, P19)", async () => {
  const locks = createLocks(server.url, { ttl: "6s" });
  await expectOthersRenewed(locks, async (key) => {
    const name = `UNHEX(SHA2(CONCAT('8:holdfast', '${key}'), 256))`;
    await asking.run(`UPDATE holdfast_locks SET mode = '?', used = 1 WHERE name = ${name}`);
  });
  await locks.close();
});

// A MariaDB that is started again under another host name, as a container that was replaced has one.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks } from "../../../src/index.ts";
import { answered } from "./fixture.ts";

it("a server under another host name grants at once, and keeps leases (P1, P10)", async () => {
  const node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, {});
  await node.start();
  const first = createLocks(node.url);
  const lease = await first.acquire("kept", { ttl: "5m" });
  await first.acquire("let go").then((one) => one.release());
  // As if the server had had another host name so far.
  await node.query("UPDATE holdfast_primary SET server = REPLACE(server, '@', '@before-')");
  const second = createLocks(node.url);
  // A server that held its grants back would do so for a minute.
  await (await second.acquire("let go", { wait: 30_000 })).release();
  expect(await answered(() => second.tryAcquire("kept"))).toBeNull();
  expect(await lease.verify()).toBe(true);
  expect(await lease.release()).toBe(true);
  await first.close();
  await second.close();
  await node.stop();
});

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { testHalfOpen } from "../../support/half-open.ts";

let node: MariadbNode;

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, {});
  await node.start();
});

afterAll(() => node?.stop());

testHalfOpen(["table", "row"], () => ({
  port: node.port,
  url: (port) => node.url.replace(String(node.port), String(port)),
}));

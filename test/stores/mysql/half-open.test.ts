// Connections that are half open: the server does not answer on them, and a new one works at once.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks } from "../../../src/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";

let node: MariadbNode;

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, {});
  await node.start();
});

afterAll(() => node?.stop());

it.each(["table", "row"])("half-open connections are replaced within 5 s, mode %s (P13)", async (mode) => {
  const proxy = await Proxy.listen({ host: "127.0.0.1", port: node.port });
  const locks = createLocks(`${node.url.replace(String(node.port), String(proxy.port))}?mode=${mode}`);
  try {
    const held = await locks.acquire("held");
    // So that many connections rest in the pool.
    const many = await Promise.all(Array.from({ length: 8 }, (_none, at) => locks.acquire(`many:${at}`)));
    await Promise.all(many.map((lease) => lease.release()));
    proxy.halfOpen();
    const meter = new StallMeter();
    await (await locks.acquire("next", { wait: "1m" })).release();
    const tookMs = meter.workingMs();
    expect(tookMs).toBeLessThan(5_000);
    // A session lock ends with its connection.
    if (mode === "table") expect(await held.release()).toBe(true);
  } finally {
    await locks.close();
    await proxy.close();
  }
});

// Connections that are half open: the server does not answer on them, and a new one works at once.

import { afterAll, beforeAll, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { createLocks } from "../../../src/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { PostgresWorld } from "./fixture.ts";

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(() => world?.stop());

it.each(["table", "advisory"])(
  "half-open connections are replaced within 5 s, mode %s (P13)",
  async (mode) => {
    const proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
    const url = world.url.replace(String(world.server.port), String(proxy.port));
    const locks = createLocks(`${url}?mode=${mode}`);
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
  },
);

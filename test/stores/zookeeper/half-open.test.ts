// A connection that is half open: the server does not answer on it, and a new one works at once.

import { afterAll, beforeAll, expect, it } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { nextGrant } from "../../support/half-open.ts";
import { ZooKeeperWorld } from "./fixture.ts";

let world: ZooKeeperWorld;

beforeAll(async () => {
  world = await ZooKeeperWorld.start();
});

afterAll(() => world?.stop());

it("a half-open connection to ZooKeeper is replaced within 5 s, and costs no lease (P13)", async () => {
  const proxy = await world.proxy();
  const locks = createLocks(`zookeeper://127.0.0.1:${proxy.port}`);
  try {
    const held = await locks.acquire("held");
    proxy.halfOpen();
    const [meter, startedMs] = [new StallMeter(), performance.now()];
    const { lease, unanswered } = await nextGrant(locks);
    const tookMs = Math.round(performance.now() - startedMs);
    console.log(`half-open: ${unanswered} calls without an answer, grant after ${tookMs} ms`);
    expect(meter.workingMs()).toBeLessThan(5_000);
    await lease.release();
    expect(held.held).toBe(true);
    expect(await held.release()).toBe(true);
  } finally {
    await locks.close();
  }
});

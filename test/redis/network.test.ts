// A network that loses, cuts and drops, in front of a real Redis, with both clients: nothing is granted twice, nothing is left behind.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../faults/proxy.ts";
import { createLocks } from "../../src/index.ts";
import { redis } from "../../src/stores/redis/index.ts";
import { io, RedisWorld, until } from "./world.ts";

let world: RedisWorld;
let proxy: Proxy;

beforeAll(async () => {
  world = await RedisWorld.start();
  proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
  // Makes the scripts known, so that the first reply to be lost is a grant and not a demand for the text.
  const near = createLocks(world.url);
  await (await near.acquire("known")).release();
  await near.close();
});

afterAll(async () => {
  await proxy?.close();
  await world?.stop();
});

describe.each(["redis", "ioredis"] as const)("with %s", (driver) => {
  const far = () => createLocks(redis({ url: `redis://127.0.0.1:${proxy.port}`, driver }), { ttl: 600 });

  it("a grant whose reply is lost is adopted or undone, and fences grow (P3, P8)", async () => {
    const [locks, near] = [far(), createLocks(world.url)];
    await locks.inspect("first");
    let before = 0n;
    for (let turn = 0; turn < 6; turn += 1) {
      proxy.swallow("replies");
      const acquiring = locks.acquire("swallowed", { wait: "10s" });
      await until("the grant at the server", async () => (await near.inspect("swallowed")) !== null);
      if (turn % 2 === 0) await io.sleep(250);
      proxy.heal();
      const lease = await acquiring;
      expect(lease.fence > before).toBe(true);
      before = lease.fence;
      await lease.release();
    }
    await until("an empty list", async () => (await near.inspect("swallowed")) === null);
    await locks.close();
    await near.close();
  });

  it("an acquire that nobody wants any more leaves nothing behind (P8, P16)", async () => {
    const [locks, near] = [far(), createLocks(world.url)];
    await locks.inspect("first");
    proxy.swallow("replies");
    await expect(locks.tryAcquire("unwanted")).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    proxy.heal();
    await until("the undoing", async () => (await near.inspect("unwanted")) === null);
    await locks.close();
    await near.close();
  });

  it("connections that are dropped while it waits cost a waiter nothing but time (P11, P12)", async () => {
    const [locks, near] = [far(), createLocks(world.url)];
    const lease = await near.acquire("dropped");
    const waiting = locks.acquire("dropped", { wait: "10s" });
    await until("the waiter", async () => ((await near.inspect("dropped"))?.waiters ?? []).length === 1);
    proxy.drop();
    await io.sleep(100);
    await lease.release();
    const next = await waiting;
    expect(next.fence > lease.fence).toBe(true);
    await next.release();
    await locks.close();
    await near.close();
  });

  it("a holder that is cut off is told in time, and its successor has a larger fence (P2, P7)", async () => {
    const [locks, near] = [far(), createLocks(world.url)];
    const lease = await locks.acquire("cut");
    proxy.cut();
    const next = await near.acquire("cut", { wait: "10s" });
    expect(lease.held).toBe(false);
    expect(lease.signal.aborted).toBe(true);
    expect(next.fence > lease.fence).toBe(true);
    proxy.heal();
    await io.sleep(100);
    expect(next.held).toBe(true);
    await next.release();
    await locks.close();
    await near.close();
  });
});

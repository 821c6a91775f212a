// A proxy silences the connections that exist and accepts new ones, as after a NAT timeout or when the host
// behind an address was replaced. Two calls in a row without an answer replace the connection (P13).

import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { createLocks } from "../../../src/index.ts";
import { redis, type RedisOptions } from "../../../src/stores/redis/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { io, RedisWorld, until } from "./fixture.ts";

let world: RedisWorld;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

interface Way {
  readonly options: RedisOptions;
  /** Of the client that was given. */
  end?(): void;
  isOpen?(): boolean;
}

const ways: Readonly<Record<string, (url: string) => Promise<Way>>> = {
  "by URL": (url) => Promise.resolve({ options: { url } }),
  "node-redis by URL": (url) => Promise.resolve({ options: { url, driver: "redis" } }),
  "ioredis by URL": (url) => Promise.resolve({ options: { url, driver: "ioredis" } }),
  "without scripts": (url) => Promise.resolve({ options: { url, scripts: false } }),
  "node-redis without scripts": (url) =>
    Promise.resolve({ options: { url, scripts: false, driver: "redis" } }),
  "ioredis without scripts": (url) =>
    Promise.resolve({ options: { url, scripts: false, driver: "ioredis" } }),
  "a client of node-redis": async (url) => {
    const client = await createClient({ url, database: 3 })
      .on("error", () => {})
      .connect();
    return { options: { client }, end: () => client.destroy(), isOpen: () => client.isOpen };
  },
  "a client of ioredis": (url) => {
    const client = new Redis(url, { db: 3 });
    return Promise.resolve({
      options: { client },
      end: () => client.disconnect(),
      isOpen: () => client.status === "ready",
    });
  },
};

describe.concurrent.each(Object.keys(ways))("%s", (name) => {
  it("grants, renews and listens again over a new connection (P11, P13)", async () => {
    const proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
    const way = await (ways[name] as (typeof ways)[string])(`redis://127.0.0.1:${proxy.port}`);
    const locks = createLocks(redis(way.options), { namespace: name.replaceAll(" ", "-") });
    const kept = await locks.acquire("kept", { ttl: "20s" });
    const [meter, startMs] = [new StallMeter(), performance.now()];
    proxy.halfOpen();
    const lease = await locks.acquire("next", { wait: "60s" });
    const [tookMs, workingMs] = [performance.now() - startMs, meter.workingMs()];
    console.log(`${name}: the next grant came after ${tookMs.toFixed(0)} ms`);
    expect(workingMs).toBeLessThan(6_000);
    expect(await kept.verify()).toBe(true);
    await kept.extend("20s");
    // A push over the new subscription, not a heartbeat: pushes alone carry the reason.
    if (way.options.scripts !== false) {
      await until("a revocation by push", async () => {
        const victim = await locks.acquire("told", { renew: false, wait: "60s" });
        await locks.revoke("told", { reason: "by hand" });
        await io.sleep(250);
        const told = victim.signal.aborted;
        await victim.release().catch(() => {});
        return told;
      });
    }
    expect(way.isOpen?.() ?? true).toBe(true);
    await lease.release();
    await kept.release();
    await locks.close();
    way.end?.();
    await proxy.close();
  });
});

it("a client that was told SELECT is not replaced by a connection to another database (P1)", async () => {
  const proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
  const client = await createClient({ url: `redis://127.0.0.1:${proxy.port}` })
    .on("error", () => {})
    .connect();
  await client.select(5);
  const locks = createLocks(redis({ client }), { ttl: "2s" });
  await (await locks.acquire("selected")).release();
  proxy.halfOpen();
  // On a busy machine, some calls time out before the new connection has told its database.
  const refusal = (): Promise<unknown> => locks.acquire("selected", { wait: "6s" }).catch(String);
  await expect.poll(refusal).toMatch(/database 0 instead of 5/);
  expect(await world.ask("KEYS", "holdfast:{selected}")).toEqual([]);
  await locks.close();
  client.destroy();
  await proxy.close();
});

// A network that loses, cuts and drops, in front of a real Redis, with every client: nothing is granted twice, nothing is left behind.

import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { io, RedisWorld, until } from "./fixture.ts";

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

const drivers = {
  "connections of our own": {},
  redis: { driver: "redis" },
  ioredis: { driver: "ioredis" },
} as const;

describe.each(Object.keys(drivers) as (keyof typeof drivers)[])("with %s", (name) => {
  const options = drivers[name];
  const far = () => createLocks(redis({ url: `redis://127.0.0.1:${proxy.port}`, ...options }), { ttl: 600 });

  it("a grant whose reply is lost is adopted or undone, and fences grow (P3, P8)", async () => {
    const [locks, near] = [far(), createLocks(world.url)];
    await locks.inspect("first");
    let before = 0n;
    for (let turn = 0; turn < 6; turn += 1) {
      proxy.swallow("replies");
      const acquiring = locks.acquire("swallowed", { wait: "100s" });
      await until("the grant at the server", async () => (await near.inspect("swallowed")) !== null);
      if (turn % 2 === 0) await io.sleep(250);
      proxy.heal();
      const lease = await acquiring;
      expect(lease.fence > before).toBe(true);
      before = lease.fence;
      // A busy machine may not get the answer in time. Then the release is abandoned, which ends it as well.
      await lease.release().catch(() => false);
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
    const waiting = locks.acquire("dropped", { wait: "100s" });
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

  it("a server that hangs up during the greeting is greeted again (P10)", async () => {
    const door = await Door.open(world.server.port);
    const locks = createLocks(redis({ url: `redis://127.0.0.1:${door.port}`, ...options }), { ttl: 600 });
    await (await locks.acquire("greeted")).release();
    for (const times of [1, 3]) {
      door.hangUp(times);
      const lease = await locks.acquire("greeted", { wait: "100s" });
      expect(await lease.release()).toBe(true);
    }
    await locks.close();
    door.close();
  });

  it("a holder that is cut off is told in time, and its successor has a larger fence (P2, P7)", async () => {
    const [locks, near] = [far(), createLocks(world.url)];
    const lease = await locks.acquire("cut");
    proxy.cut();
    const next = await near.acquire("cut", { wait: "100s" });
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

/** In front of a server: it hangs up on whoever is there, and on so many newcomers as soon as they have said something. */
class Door {
  readonly #server: Server;
  readonly #guests = new Set<Socket>();
  #refusals = 0;

  private constructor(behind: number) {
    this.#server = createServer((guest) => {
      this.#guests.add(guest);
      guest.on("error", () => {});
      if (this.#refusals > 0) {
        this.#refusals -= 1;
        guest.once("data", () => guest.resetAndDestroy());
        return;
      }
      const inside = connect({ host: "127.0.0.1", port: behind });
      inside.on("error", () => guest.destroy());
      guest.on("close", () => inside.destroy());
      guest.pipe(inside).pipe(guest);
    });
  }

  static async open(behind: number): Promise<Door> {
    const door = new Door(behind);
    await new Promise<void>((resolve) => door.#server.listen(0, "127.0.0.1", resolve));
    return door;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  hangUp(times: number): void {
    this.#refusals = times;
    for (const guest of this.#guests) guest.resetAndDestroy();
    this.#guests.clear();
  }

  close(): void {
    this.#server.close();
    for (const guest of this.#guests) guest.destroy();
  }
}

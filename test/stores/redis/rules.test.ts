// What the scripts promise beyond the conformance suite: late messages, flushed scripts, full memory, keys that end by themselves.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Grant, OpenStore } from "../../../src/core/store.ts";
import type { Redis } from "ioredis";
import { fencesOf, io, RedisWorld, request, until } from "./fixture.ts";

const HOUR_MS = 3_600_000;

let world: RedisWorld;
let store: OpenStore;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

beforeEach(async () => {
  await world.ask("FLUSHALL");
  store = await world.open();
});

/** A client that keeps what it sent, so that the network can deliver it once more. */
async function recording(): Promise<{
  store: OpenStore;
  again(index: number): Promise<unknown>;
  sent: string[][];
}> {
  const { Redis: Client } = await import("ioredis");
  const client: Redis = new Client(world.url);
  const sent: string[][] = [];
  const shown = new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== "call") return typeof value === "function" ? (value.bind(target) as unknown) : value;
      return (command: string, ...args: string[]) => {
        if (command === "EVALSHA") sent.push([command, ...args]);
        return client.call(command, ...args);
      };
    },
  });
  const opened = await world.open({ client: shown });
  // What the opening asked for.
  sent.length = 0;
  const again = (index: number): Promise<unknown> => {
    const [command, ...args] = sent.at(index) as [string, ...string[]];
    return client.call(command, ...args);
  };
  const close = opened.close.bind(opened);
  opened.close = async () => {
    await close();
    client.disconnect();
  };
  return { store: opened, again, sent };
}

describe("an attempt that the network delivers late (P8)", () => {
  it("changes nothing after its id was released", async () => {
    const { store: own, again } = await recording();
    const a = request("late", { seq: 2 });
    const lastFences = await fencesOf(own, a);
    await own.release(a, null, { lastFences }, io);
    expect(await again(0)).toEqual(["ended"]);
    expect(await own.inspect("late", io)).toBe(null);
  });

  it("is left alone by the quick way, after a release and after an answer that was busy", async () => {
    const { store: own, again, sent } = await recording();
    const a = request("late");
    const lastFences = await fencesOf(own, a);
    await own.release(a, null, { lastFences }, io);
    expect(sent).toHaveLength(2);
    expect(await again(0)).toEqual([""]);
    expect(await again(1)).toEqual([""]);
    expect(await own.inspect("late", io)).toBe(null);
    const holder = request("late");
    const theirs = await fencesOf(store, holder);
    sent.length = 0;
    await own.attempt(request("late", { queue: false }), io);
    await store.release(holder, null, { lastFences: theirs }, io);
    expect(await again(0)).toEqual([""]);
    expect(await own.inspect("late", io)).toBe(null);
  });

  it("changes nothing after its id was abandoned, even if an older id of the same process still waits", async () => {
    const { store: own, again } = await recording();
    const holder = request("late");
    await fencesOf(store, holder);
    const older = request("late", { seq: 2 });
    const younger = request("late", { seq: 2 });
    await own.attempt(older, io);
    await own.attempt(younger, io);
    await own.abandon([younger], io);
    expect(await again(1)).toEqual(["ended"]);
    expect((await own.inspect("late", io))?.waiters).toHaveLength(1);
    // A second delivery of what was answered before is told the same, and the waiter keeps its place.
    expect(await again(0)).toEqual(["ended"]);
    expect(await own.attempt({ ...older, seq: 3 }, io)).toHaveProperty("busy");
    expect((await own.inspect("late", io))?.waiters).toHaveLength(1);
  });

  it("changes nothing when it was answered busy and wants no place in line", async () => {
    const { store: own, again } = await recording();
    const holder = request("late");
    const lastFences = await fencesOf(store, holder);
    const hasty = request("late", { queue: false, seq: 2 });
    expect(await own.attempt(hasty, io)).toHaveProperty("busy");
    await store.release(holder, null, { lastFences }, io);
    expect(await again(0)).toEqual(["ended"]);
    expect(await own.inspect("late", io)).toBe(null);
  });

  it("is remembered by one number per process, however many turns there were (P16)", async () => {
    for (let turn = 0; turn < 200; turn += 1) {
      const a = request("many");
      await store.release(a, null, { lastFences: await fencesOf(store, a) }, io);
    }
    expect(Number(await world.ask("STRLEN", "t:{many}"))).toBeLessThan(200);
  });
});

describe("keys in Redis", () => {
  it("all end by themselves: an hour after the clock has passed their fence (P16)", async () => {
    const a = request("idle", { ttlMs: 60_000 });
    const lastFences = await fencesOf(store, a);
    const held = Number(await world.ask("PTTL", "t:{idle}"));
    expect(held).toBeGreaterThan(HOUR_MS + 50_000);
    await store.attempt(request("idle"), io);
    await store.release(a, null, { lastFences }, io);
    await fencesOf(store, request("kept", { keepMs: 2 * HOUR_MS }));
    await store.abandon([request("never seen")], io);
    for (const name of (await world.ask("KEYS", "*")) as string[]) {
      const left = Number(await world.ask("PTTL", name));
      expect(left, name).toBeGreaterThan(0);
      expect(left, name).toBeLessThan(4 * HOUR_MS);
    }
    expect(Number(await world.ask("PTTL", "t:{never seen}"))).toBeLessThanOrEqual(60_000);
    expect(Number(await world.ask("PTTL", "t:{kept}"))).toBeGreaterThan(2 * HOUR_MS);
  });

  it("are exact: fences near 2^53 come back digit by digit (P3)", async () => {
    const script = "return string.format('%.0f', tonumber(ARGV[1]) + 1)";
    expect(await world.ask("EVAL", script, "0", "9007199254740990")).toBe("9007199254740991");
  });

  it("that somebody else wrote are refused, never taken for a free lock (P19)", async () => {
    await world.ask("SET", "t:{theirs}", "value");
    await world.ask("RPUSH", "t:{list}", "value");
    for (const key of ["theirs", "list"]) {
      await expect(store.attempt(request(key), io)).rejects.toMatchObject({
        code: "ERR_STORE_UNSAFE",
      });
    }
  });
});

describe("scripts that were flushed", () => {
  it("are sent again without anybody noticing", async () => {
    const a = request("flushed");
    const b = request("flushed");
    const pushed: (Grant | undefined)[] = [];
    const lastFences = await fencesOf(store, a);
    await store.subscribe?.(b, (grant) => pushed.push(grant));
    await world.ask("SCRIPT", "FLUSH");
    expect(await store.attempt(b, io)).toHaveProperty("busy");
    await world.ask("SCRIPT", "FLUSH");
    const renewed = { state: "renewed", validMs: a.ttlMs };
    expect(await store.renew([item(a, lastFences)], io)).toMatchObject([renewed]);
    await world.ask("SCRIPT", "FLUSH");
    expect(await store.release(a, null, { lastFences }, io)).toBe("released");
    await until("the push", () => pushed.length > 0);
  });
});

describe("when memory is full", () => {
  it("what is held can be renewed, passed on and released; a new lock is refused by name", async () => {
    const [a, b, c] = [request("full"), request("full"), request("other")];
    const lastFences = await fencesOf(store, a);
    const others = await fencesOf(store, c);
    await store.attempt(b, io);
    await world.ask("CONFIG", "SET", "maxmemory", "1");
    try {
      await expect(store.attempt(request("new"), io)).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        retryable: true,
        message: expect.stringContaining("memory is full") as string,
      });
      expect(await store.renew([item(a, lastFences), item(c, others)], io)).toMatchObject([
        { state: "renewed" },
        { state: "renewed" },
      ]);
      expect(await store.attempt({ ...b, seq: 2 }, io)).toHaveProperty("busy");
      expect(await store.release(a, null, { lastFences }, io)).toBe("released");
      expect(await store.release(c, null, { lastFences: others }, io)).toBe("released");
      expect(await store.attempt({ ...b, seq: 3 }, io)).toHaveProperty("granted");
      await store.abandon([b], io);
      expect(await store.inspect("full", io)).toBe(null);
    } finally {
      await world.ask("CONFIG", "SET", "maxmemory", "0");
    }
  });
});

describe("the record of a semaphore", () => {
  it("does not grow with refused tries while permits are held and waited for (P16)", async () => {
    const permit = (queue: boolean) => request("pool", { limit: 2, queue });
    const held = [permit(true), permit(true)];
    for (const one of held) expect(await store.attempt(one, io)).toHaveProperty("granted");
    const waiter = permit(true);
    expect(await store.attempt(waiter, io)).toHaveProperty("busy");
    const refuse = async (times: number): Promise<number> => {
      for (let n = 0; n < times; n += 1)
        expect(await store.attempt(permit(false), io)).toHaveProperty("busy");
      return Number(await world.ask("STRLEN", "t:{pool}"));
    };
    const before = await refuse(1);
    expect(await refuse(200)).toBeLessThan(before + 20);
    // Who holds and who waits is still known.
    expect(await store.attempt({ ...waiter, seq: 2 }, io)).toHaveProperty("busy");
    expect(await store.attempt({ ...(held[0] as typeof waiter), seq: 2 }, io)).toHaveProperty("granted");
    await store.abandon([held[1] as typeof waiter], io);
    expect(await store.attempt({ ...waiter, seq: 3 }, io)).toHaveProperty("granted");
  });
});

describe("the subscription", () => {
  it("comes back after its connection was lost, and the heartbeat is the net meanwhile (P11)", async () => {
    for (const driver of ["redis", "ioredis"] as const) {
      const own = await world.open({ url: world.url, driver });
      const [a, b] = [request(driver), request(driver)];
      const lastFences = await fencesOf(store, a);
      const pushed: (Grant | undefined)[] = [];
      await own.subscribe?.(b, (grant) => pushed.push(grant));
      await own.attempt(b, io);
      const listening = async (): Promise<number> =>
        ((await world.ask("PUBSUB", "CHANNELS", "t:push:*")) as string[]).length;
      const before = await listening();
      await world.ask("CLIENT", "KILL", "TYPE", "pubsub");
      await until("the new subscriptions", async () => (await listening()) === before);
      await own.attempt({ ...b, seq: 2 }, io);
      await store.release(a, null, { lastFences }, io);
      await until("the push", () => pushed.length > 0);
      expect(pushed[0]?.anchor).toBe(2);
    }
  });
});

function item(one: ReturnType<typeof request>, lastFences: readonly bigint[]) {
  return {
    request: one,
    cookie: null,
    ttlMs: one.ttlMs,
    lastFences,
    label: one.label,
  };
}

// Locks without scripts: WATCH and MULTI on a connection of its own, beside processes that do run scripts.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { createClient as createClient4 } from "redis-4";
import { createClient as createClient6 } from "redis-6";
import { createLocks, type Locks } from "../../../src/index.ts";
import { redis, type RedisClient } from "../../../src/stores/redis/index.ts";
import { io, RedisWorld, until } from "./fixture.ts";

let world: RedisWorld;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

const plain = (): Locks => createLocks(redis({ url: world.url, scripts: false }));

/** How often a command has been called since the server began. */
async function calls(name: string): Promise<number> {
  const text = String(await world.ask("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(text)?.[1] ?? 0);
}

describe("without scripts", () => {
  it("no script is run, and locks with scripts on the same key are excluded and pass it on, both ways (P1, P3)", async () => {
    const [without, scripted] = [plain(), createLocks(world.url)];
    let before = 0n;
    for (let round = 0; round < 4; round += 1) {
      const [one, two] = round % 2 === 0 ? [without, scripted] : [scripted, without];
      const lease = await one.acquire("mixed", { label: "первый" });
      expect(lease.fence > before).toBe(true);
      expect(await two.tryAcquire("mixed")).toBeNull();
      const waiting = two.acquire("mixed", { label: "second" });
      // Only a process with scripts has a place in the queue.
      if (two === scripted)
        await until("the waiter", async () => ((await one.inspect("mixed"))?.waiters ?? []).length === 1);
      expect((await two.inspect("mixed"))?.holders[0]?.label).toBe("первый");
      await lease.release();
      const next = await waiting;
      expect(next.fence > lease.fence).toBe(true);
      before = next.fence;
      await next.release();
    }
    await scripted.close();
    const scriptsRun = (await calls("evalsha")) + (await calls("eval"));
    await without.using("mixed", async (lease) => {
      await lease.extend();
      expect(await lease.verify()).toBe(true);
    });
    await without.close();
    expect((await calls("evalsha")) + (await calls("eval"))).toBe(scriptsRun);
  });

  it("keeps the marks of requests whose attempts may still arrive (P8)", async () => {
    const [locks, id] = [plain(), "0".repeat(32)];
    const untilMs = String(Date.now() + 60_000);
    await world.ask("HSET", "holdfast:{marked}", "v", "3", "ended", id + untilMs);
    const lease = await locks.acquire("marked");
    expect(await world.ask("HGET", "holdfast:{marked}", "ended")).toBe(id + untilMs);
    await lease.release();
    expect(await world.ask("HGET", "holdfast:{marked}", "ended")).toBe(id + untilMs);
    await locks.close();
  });

  it("other kinds are refused by name, and several keys are taken one by one (P17)", async () => {
    const locks = plain();
    for (const wish of [{ mode: "shared" as const }, { limit: 2 }]) {
      await expect(locks.acquire("kinds", wish)).rejects.toMatchObject({ code: "ERR_LOCK_UNSUPPORTED" });
    }
    await expect(locks.once("kinds", { atLeast: "1s" }, () => 1)).rejects.toMatchObject({
      code: "ERR_LOCK_UNSUPPORTED",
    });
    const lease = await locks.acquire(["b", "a"]);
    expect(lease.keys).toEqual(["a", "b"]);
    await lease.release();
    await locks.close();
  });

  it("a counter that both kinds of processes raise loses no update, although connections are cut all the time (P1, P3)", async () => {
    const all = [plain(), createLocks(world.url), plain(), createLocks(world.url)];
    // The first connection of a store is not tried again.
    await Promise.all(all.map((locks) => locks.inspect("counter")));
    let [counter, last, done] = [0, 0n, false];
    const killing = (async () => {
      for (let kills = 0; kills < 5 && !done; kills += 1) {
        await io.sleep(100);
        await world.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      }
    })();
    const working = Promise.all(
      all.map(async (locks) => {
        for (let n = 0; n < 20; n += 1) {
          await locks.using("counter", { wait: "100s" }, async (lease) => {
            const read = counter;
            expect(lease.fence > last).toBe(true);
            last = lease.fence;
            await io.sleep(1);
            counter = read + 1;
          });
        }
      }),
    );
    try {
      await working;
    } finally {
      done = true;
      await killing;
    }
    expect(counter).toBe(80);
    await Promise.all(all.map((locks) => locks.close()));
  });

  it.each([
    ["node-redis 4", async () => createClient4({ url: world.url }).connect()],
    ["node-redis 5", async () => createClient({ url: world.url, RESP: 3 }).connect()],
    ["node-redis 6", async () => createClient6({ url: world.url }).connect()],
    [
      "ioredis",
      async () => Promise.resolve(new Redis(world.url, { keyPrefix: "app:", enableAutoPipelining: true })),
    ],
  ] as const)("%s that was given is duplicated, and left as it was", async (name, open) => {
    const client: RedisClient = await open();
    const locks = createLocks(redis({ client, scripts: false }));
    const lease = await locks.acquire(name);
    expect(await world.ask("KEYS", `*holdfast:{${name}}`)).toHaveLength(1);
    expect((await locks.inspect(name))?.holders).toHaveLength(1);
    await lease.release();
    expect(await locks.inspect(name)).toBeNull();
    await locks.close();
    const ending = client as object as { destroy?(): void; disconnect(): unknown };
    if (ending.destroy === undefined) await ending.disconnect();
    else ending.destroy();
  });
});

describe("a user that may not run scripts", () => {
  it("gets transactions by itself, and is told what they cannot do, also by the very first call", async () => {
    await world.ask("ACL", "SETUSER", "plain", "on", ">p", "~*", "&*", "+@all", "-eval", "-evalsha");
    const url = `redis://plain:p@${world.url.slice("redis://".length)}`;
    const first = createLocks(url);
    await expect(first.acquire("k", { mode: "shared" })).rejects.toMatchObject({
      code: "ERR_LOCK_UNSUPPORTED",
      message: expect.stringContaining("shared") as string,
    });
    await first.close();
    const locks = createLocks(url);
    const lease = await locks.acquire("k");
    expect(locks.guarantees.kinds).toEqual(["exclusive"]);
    const beside = createLocks(world.url);
    expect(await beside.tryAcquire("k")).toBeNull();
    await lease.release();
    await locks.close();
    await beside.close();
  });
});

// Values of Redis that are not ours under the names that are: every type, bytes of every kind, and our own records damaged. For
// scripts and for transactions, which read them by different means.

import { createClient } from "redis";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { RedisWorld, until } from "./fixture.ts";
import { complaints, damagedBytes } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";

const NAME = "holdfast:{damaged}";
let world: RedisWorld;
let client: ReturnType<typeof createClient>;
const real: Record<"plain" | "full", Buffer> = { plain: Buffer.alloc(0), full: Buffer.alloc(0) };

beforeAll(async () => {
  world = await RedisWorld.start();
  client = createClient({ url: world.url });
  await client.connect();
  const [one, two] = [createLocks(world.url), createLocks(world.url)];
  const lease = await one.acquire("damaged");
  real.plain = await value();
  const next = two.acquire("damaged");
  await until("a waiter", async () => (await one.inspect("damaged"))?.waiters?.length === 1);
  real.full = await value();
  await lease.release();
  await (await next).release();
  await Promise.all([one.close(), two.close()]);
});

afterAll(async () => {
  client?.destroy();
  await world?.stop();
});

async function value(): Promise<Buffer> {
  const hex = await client.sendCommand([
    "EVAL",
    "return (redis.call('GET', KEYS[1]):gsub('.', function(c) return string.format('%02x', c:byte()) end))",
    "1",
    NAME,
  ]);
  return Buffer.from(hex as unknown as string, "hex");
}

describe.each([true, false])("with scripts %s", (scripts) => {
  let locks: Locks;

  beforeAll(() => {
    locks = createLocks(redis({ url: world.url, scripts }));
  });

  afterAll(() => locks?.close());

  it.each(["plain", "full"] as const)(
    "bytes of any kind, and %s records that are damaged, are told by name",
    async (form) => {
      await fc.assert(
        fc.asyncProperty(
          damagedBytes(() => real[form]),
          async (bytes) => {
            await client.set(NAME, bytes);
            expect(await complaints(locks, "damaged", "fine")).toEqual([]);
          },
        ),
        runs(60),
      );
    },
  );

  it("other types are told by name, and kept", async () => {
    for (const [type, ...words] of [
      ["list", "RPUSH", NAME, "a"],
      ["hash", "HSET", NAME, "a", "b"],
      ["set", "SADD", NAME, "a"],
      ["zset", "ZADD", NAME, "1", "a"],
      ["stream", "XADD", NAME, "*", "a", "b"],
    ] as [string, ...string[]][]) {
      // In one step: what was given up before is still being told to the server.
      const swap = "redis.call('DEL', KEYS[1]) return redis.call(unpack(ARGV))";
      await client.sendCommand(["EVAL", swap, "1", NAME, ...words]);
      expect(await complaints(locks, "damaged", "fine"), type).toEqual([]);
      expect(await client.type(NAME)).toBe(type);
      await expect(locks.tryAcquire("damaged")).rejects.toMatchObject({ code: "ERR_STORE_UNSAFE" });
    }
    await client.del(NAME);
  });
});

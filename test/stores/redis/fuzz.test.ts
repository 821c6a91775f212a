// Values of Redis that are not ours under the names that are: every type, bytes of every kind, and our own
// records with one field damaged. For scripts and for transactions, which read them by different means.

import { createClient } from "redis";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { answered, RedisWorld, until } from "./fixture.ts";
import { complaints, damagedBytes } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";

const NAME = "holdfast:{damaged}";
let world: RedisWorld;
let client: ReturnType<typeof createClient>;
type Fields = Record<string, string>;
const real: Record<"plain" | "waited for" | "counted", Fields> = { plain: {}, "waited for": {}, counted: {} };

beforeAll(async () => {
  world = await RedisWorld.start();
  client = createClient({ url: world.url });
  await client.connect();
  const [one, two] = [createLocks(world.url), createLocks(world.url)];
  const waiting = async (): Promise<boolean> => (await one.inspect("damaged"))?.waiters?.length === 1;
  const lease = await one.acquire("damaged");
  real.plain = await client.hGetAll(NAME);
  const next = two.acquire("damaged");
  await until("a waiter", waiting);
  real["waited for"] = await client.hGetAll(NAME);
  await lease.release();
  await (await next).release();
  const reader = await one.acquire("damaged", { mode: "shared" });
  const writer = two.acquire("damaged");
  await until("a waiter", waiting);
  real.counted = await client.hGetAll(NAME);
  await reader.release();
  await (await writer).release();
  await Promise.all([one.close(), two.close()]);
});

afterAll(async () => {
  client?.destroy();
  await world?.stop();
});

/** In one step: what was given up before is still being told to the server. */
function replace(...words: (string | Buffer)[]): Promise<unknown> {
  const swap = "redis.call('DEL', KEYS[1]) return redis.call(unpack(ARGV))";
  return client.sendCommand(["EVAL", swap, "1", NAME, ...words]);
}

describe.each([true, false])("with scripts %s", (scripts) => {
  let locks: Locks;

  beforeAll(() => {
    locks = createLocks(redis({ url: world.url, scripts }));
  });

  afterAll(() => locks?.close());

  it("bytes of any kind are told by name", async () => {
    const text = (): Buffer => Buffer.from(Object.values(real.plain).join());
    await fc.assert(
      fc.asyncProperty(damagedBytes(text), async (bytes) => {
        await replace("SET", NAME, bytes);
        expect(await complaints(locks, "damaged", "fine")).toEqual([]);
      }),
      runs(15),
    );
  });

  it.each(["plain", "waited for", "counted"] as const)(
    "a record (%s) with a field that is damaged or missing harms its own key alone",
    async (form) => {
      const damage = fc.tuple(
        fc.nat(100),
        fc.nat(200),
        fc.option(fc.string({ unit: "grapheme-ascii", maxLength: 20 })),
      );
      await fc.assert(
        fc.asyncProperty(damage, async ([which, at, text]) => {
          const fields = Object.entries(real[form]);
          const hurt = which % fields.length;
          const words = fields.flatMap(([field, value], i) => {
            if (i !== hurt) return [field, value];
            return text === null ? [] : [field, value.slice(0, at % (value.length + 1)) + text];
          });
          await replace("HSET", NAME, ...(words.length === 0 ? ["x", "y"] : words));
          expect(await complaints(locks, "damaged", "fine")).toEqual([]);
        }),
        runs(20),
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
      await replace(...words);
      expect(await complaints(locks, "damaged", "fine"), type).toEqual([]);
      expect(await client.type(NAME)).toBe(type);
      await expect(answered(() => locks.tryAcquire("damaged"))).rejects.toMatchObject({
        code: "ERR_STORE_UNSAFE",
      });
    }
    await client.del(NAME);
  });
});

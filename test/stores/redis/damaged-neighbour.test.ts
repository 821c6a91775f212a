// One damaged record beside healthy ones: only its own key fails. Every operation on many keys is tried, with
// scripts and without.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Duration, type Lease, type Locks, UnsafeStoreError } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { io, RedisWorld, request, until } from "./fixture.ts";

const HEALTHY = 20;
const KEYS = Array.from({ length: HEALTHY }, (_none, at) => `healthy ${at}`);
type Damage = (name: string) => string[];
const DAMAGES: readonly (readonly [string, Damage])[] = [
  ["a foreign value", (name) => ["SET", name, "somebody else's"]],
  ["a record that was cut", (name) => ["SET", name, "hf2h123"]],
  ["another type", (name) => ["RPUSH", name, "a"]],
];

/** In one step: a renewal after the DEL would find the lease gone, and report its loss. */
const REPLACE = "redis.call('DEL', KEYS[1]); return redis.call(unpack(ARGV))";
/** No renewal of these leases is due while a test runs. */
const LONG_TTL = "10m";

let world: RedisWorld;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

/** Locks in a namespace of their own, and what damages a record among them. */
function cell(
  scripts: boolean,
  damage: Damage,
  ttl: Duration,
): { locks: Locks; harm(key: string): Promise<void> } {
  const namespace = nodeSystem.randomId();
  return {
    locks: createLocks(redis({ url: world.url, scripts }), { ttl, namespace }),
    async harm(key) {
      const name = `${namespace}:{${key}}`;
      await world.ask("EVAL", REPLACE, "1", name, ...damage(name));
    },
  };
}

describe.concurrent.each([true, false])("with scripts %s", (scripts) => {
  describe.each(DAMAGES)("%s", (_name, damage) => {
    it("costs no other lease of the process its renewal (P17, P19)", async () => {
      const { locks, harm } = cell(scripts, damage, "6s");
      const renewed = new Set<string>();
      locks.on("renewed", ({ keys }) => renewed.add(keys[0] as string));
      const leases = await Promise.all(KEYS.map((key) => locks.acquire(key)));
      const victim = await locks.acquire("damaged");
      await harm("damaged");
      renewed.clear();
      await until("renewals", () => KEYS.every((key) => renewed.has(key)), 60_000);
      await until("the loss", () => victim.signal.aborted, 60_000);
      expect(leases.every((lease) => lease.held)).toBe(true);
      const released = await Promise.all(leases.map((lease) => lease.release()));
      expect(released.every(Boolean)).toBe(true);
      await locks.close();
    });

    it("is passed over by list, and named by inspect (P17)", async () => {
      const { locks, harm } = cell(scripts, damage, LONG_TTL);
      const leases = await Promise.all(KEYS.map((key) => locks.acquire(key)));
      await harm("damaged");
      const listed: string[] = [];
      for await (const { key } of locks.list()) listed.push(key);
      expect(listed.toSorted()).toEqual(KEYS.toSorted());
      await expect(locks.inspect("damaged")).rejects.toBeInstanceOf(UnsafeStoreError);
      await Promise.all(leases.map((lease) => lease.release()));
      await locks.close();
    });

    it("fails alone among locks that are taken and released in one moment (P17)", async () => {
      const { locks, harm } = cell(scripts, damage, LONG_TTL);
      await (await locks.acquire("first")).release();
      await harm("damaged");
      const taken = await Promise.allSettled(["damaged", ...KEYS].map((key) => locks.tryAcquire(key)));
      expect(taken[0]).toMatchObject({ status: "rejected", reason: { code: "ERR_STORE_UNSAFE" } });
      expect(taken.slice(1).every((one) => one.status === "fulfilled" && one.value !== null)).toBe(true);
      await harm("healthy 0");
      const leases = taken.slice(1).map((one) => (one as PromiseFulfilledResult<Lease>).value);
      const released = await Promise.allSettled(leases.map((lease) => lease.release()));
      expect(released[0]?.status).toBe("rejected");
      expect(released.slice(1).every((one) => one.status === "fulfilled" && one.value)).toBe(true);
      await locks.close();
    });
  });
});

describe("the answers of one renewal", () => {
  it.each([true, false])("name the damaged item alone, with scripts %s (P17)", async (scripts) => {
    const store = await world.open({ url: world.url, scripts }, `t-${scripts}`);
    const requests = ["one", "damaged", "two"].map((key) => request(key));
    for (const one of requests) await store.attempt(one, io);
    await world.ask("SET", `t-${scripts}:{damaged}`, "somebody else's");
    const items = requests.map((one) => ({
      request: one,
      cookie: null,
      ttlMs: one.ttlMs,
      lastFences: [],
      label: "x",
    }));
    const answers = await store.renew(items, io);
    expect(answers.map(({ state }) => state)).toEqual(["renewed", "unknown", "renewed"]);
    expect(answers[1]).toMatchObject({ cause: { code: "ERR_STORE_UNSAFE", key: "damaged" } });
  });
});

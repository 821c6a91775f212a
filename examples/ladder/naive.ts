// The locks that people write first, each one rung of the ladder, spelled out as plain Redis commands.

import type { RedisClientType } from "redis";

export type Redis = RedisClientType;

/** SETNX and DEL: whoever crashes in between takes the key along for ever. */
export const setnx = {
  lock: async (redis: Redis, key: string): Promise<boolean> => Number(await redis.setNX(key, "1")) === 1,
  unlock: async (redis: Redis, key: string): Promise<void> => void (await redis.del(key)),
};

/** SETNX, then EXPIRE: two steps, and a crash fits between them. */
export const setnxThenExpire = {
  async lock(redis: Redis, key: string, ttlMs: number, between: () => void = () => {}): Promise<boolean> {
    if (Number(await redis.setNX(key, "1")) !== 1) return false;
    between();
    await redis.pExpire(key, ttlMs);
    return true;
  },
};

/** SET NX PX: one step. The value says nothing about who set it. */
export const anonymous = {
  lock: async (redis: Redis, key: string, ttlMs: number): Promise<boolean> =>
    (await redis.set(key, "1", { condition: "NX", expiration: { type: "PX", value: ttlMs } })) === "OK",
  unlock: async (redis: Redis, key: string): Promise<void> => void (await redis.del(key)),
};

/** A value of one's own, looked at before DEL: two steps again, and the lease can end between them. */
export const owned = {
  lock: async (redis: Redis, key: string, owner: string, ttlMs: number): Promise<boolean> =>
    (await redis.set(key, owner, { condition: "NX", expiration: { type: "PX", value: ttlMs } })) === "OK",
  async unlock(
    redis: Redis,
    key: string,
    owner: string,
    between: () => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    if ((await redis.get(key)) !== owner) return;
    await between();
    await redis.del(key);
  },
};

const COMPARE_AND_DELETE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/** Compare-and-delete by a script: what most libraries stop at. */
export const scripted = {
  lock: owned.lock,
  unlock: async (redis: Redis, key: string, owner: string): Promise<boolean> =>
    Number(await redis.eval(COMPARE_AND_DELETE, { keys: [key], arguments: [owner] })) === 1,
};

/** A majority of independent nodes, as in the first description of Redlock: no node knows whether it has forgotten anything. */
export const majority = {
  async lock(nodes: readonly Redis[], key: string, owner: string, ttlMs: number): Promise<boolean> {
    const votes = await Promise.all(
      nodes.map((node) => owned.lock(node, key, owner, ttlMs).catch(() => false)),
    );
    return votes.filter(Boolean).length > nodes.length / 2;
  },
};

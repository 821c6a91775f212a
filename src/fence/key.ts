// A key that refuses stale holders, in Redis or in etcd: claimed on the first touch, and written only by whoever has claimed it last.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkKey } from "../core/key.ts";
import { etcdKey, type EtcdClient, isEtcd } from "./etcd-key.ts";
import { type Fence, fenceOf, staleError } from "./fence.ts";
import { redisKey, type RedisClient } from "./redis-key.ts";

export interface GuardKeyOptions {
  /** For people and for leases of several keys: the key of the lock. Default the key that is guarded. */
  readonly lock?: string | undefined;
}

export interface Claimed {
  readonly key: string;
  readonly fenceName: string;
  readonly fence: bigint;
  /** To be written in the same step; null: nothing. */
  readonly value: string | Uint8Array | null;
}

/** How a kind of server compares and raises the fence of a key in one step. */
export interface KeyClaim {
  what(key: string): string;
  /** The larger fence that stands in the way, or null. */
  claim(client: object, claimed: Claimed): Promise<bigint | null>;
}

export interface GuardKey {
  /** Claims the key for this fence, or rejects with StaleFenceError. */
  (client: RedisClient | EtcdClient, key: string, fence: Fence, options?: GuardKeyOptions): Promise<void>;
  /** Claims the key and writes the value in the same step. */
  set(
    client: RedisClient | EtcdClient,
    key: string,
    value: string | Uint8Array,
    fence: Fence,
    options?: GuardKeyOptions,
  ): Promise<void>;
  /** Under which name the fence of a key is kept. */
  fenceName(key: string): string;
}

async function claim(
  client: object,
  key: string,
  fence: Fence,
  options: GuardKeyOptions = {},
): Promise<void> {
  await run(client, key, null, fence, options);
}

async function set(
  client: object,
  key: string,
  value: string | Uint8Array,
  fence: Fence,
  options: GuardKeyOptions = {},
): Promise<void> {
  if (typeof value !== "string" && !(value instanceof Uint8Array)) {
    throw new InvalidArgumentError("the value of guardKey.set is a string or bytes", { key });
  }
  await run(client, key, value, fence, options);
}

export const guardKey: GuardKey = Object.assign(claim, { set, fenceName });

function fenceName(key: string): string {
  // In Redis, what stands between the first braces decides the slot; a key without them is hashed as a whole.
  if (!/\{[^}]+\}/.test(key)) return `{${key}}:fence`;
  // "{a}:fence" is the name for "a", so a key with braces at its end gets another ending.
  return key.endsWith("}") ? `${key}:own-fence` : `${key}:fence`;
}

async function run(
  client: object,
  key: string,
  value: string | Uint8Array | null,
  fence: Fence,
  { lock = key }: GuardKeyOptions,
): Promise<void> {
  checkKey(key);
  const number = fenceOf(fence, lock);
  const kind = isEtcd(client) ? etcdKey : redisKey;
  const seen = await kind.claim(client, { key, fenceName: fenceName(key), fence: number, value });
  if (seen !== null) throw staleError(kind.what(key), lock, number, seen);
}

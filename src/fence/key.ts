// Guards a key in Redis or etcd. A holder claims the key with its fence; a holder with a smaller fence can
// then neither claim nor write it.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkKey } from "../core/key.ts";
import { etcdKey, type EtcdClient, isEtcd } from "./etcd-key.ts";
import { type Fence, fenceOf, staleError } from "./fence.ts";
import { redisKey, type RedisClient } from "./redis-key.ts";

/** Options of `guardKey`. */
export interface GuardKeyOptions {
  /**
   * The key of the lock: it selects the fence of a lease of several keys, and errors show it.
   *
   * @default the guarded key
   */
  readonly lock?: string | undefined;
}

export interface Claimed {
  readonly key: string;
  readonly fenceName: string;
  readonly fence: bigint;
  /** The value to write in the same step, or null to claim only. */
  readonly value: string | Uint8Array | null;
}

/** How a kind of server compares and raises the fence of a key in one step. */
export interface KeyClaim {
  what(key: string): string;
  /** Resolves with null, or with the larger fence that the server already has. */
  claim(client: object, claimed: Claimed): Promise<bigint | null>;
}

/** The type of `guardKey`. */
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
  /** The name under which the server stores the fence of a key. */
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
    throw new InvalidArgumentError(`value must be a string or a Uint8Array, got ${typeof value}`, { key });
  }
  await run(client, key, value, fence, options);
}

/**
 * Claims a key in Redis or etcd for the fence of a lease. Rejects with `StaleFenceError` if a later holder
 * has claimed it.
 *
 * @example
 * await guardKey(redisClient, "order:42:state", lease);
 * await guardKey.set(redisClient, "order:42:state", "paid", lease);
 */
export const guardKey: GuardKey = Object.assign(claim, { set, fenceName });

function fenceName(key: string): string {
  // Redis Cluster takes the slot of a key from the text between its first braces, or else from the whole key.
  if (!/\{[^}]+\}/.test(key)) return `{${key}}:fence`;
  // "{a}:fence" is the name for the key "a", so the key "{a}" needs another suffix.
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

// A Redis key that refuses stale holders. The fence stands beside the value under a name of its own, in the same hash slot, and is
// compared and raised in one script. It is kept without an end: one that expired would let an old holder in.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkKey, showKey } from "../core/key.ts";
import { type Fence, fenceOf, staleError } from "./fence.ts";

/** node-redis (4 to 6) or ioredis (5 or 6), plain, sentinel or cluster, known by its shape. */
export type RedisClient = object;

export interface GuardKeyOptions {
  /** For people and for leases of several keys: the key of the lock. Default the Redis key. */
  readonly lock?: string;
}

// Fences are longer than what a Lua number keeps exact, so they are compared as text: longer is larger.
const SCRIPT = `
local fence, seen = ARGV[1], redis.call('GET', KEYS[2]) or '0'
if #seen > #fence or (#seen == #fence and seen > fence) then return seen end
redis.call('SET', KEYS[2], fence)
if ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end
return ''
`;

export interface GuardKey {
  /** Claims the key for this fence, or rejects with StaleFenceError. */
  (client: RedisClient, key: string, fence: Fence, options?: GuardKeyOptions): Promise<void>;
  /** Claims the key and writes the value in the same step. */
  set(
    client: RedisClient,
    key: string,
    value: string | Uint8Array,
    fence: Fence,
    options?: GuardKeyOptions,
  ): Promise<void>;
  /** Under which name the fence of a key is kept. */
  fenceName(key: string): string;
}

async function claim(
  client: RedisClient,
  key: string,
  fence: Fence,
  options: GuardKeyOptions = {},
): Promise<void> {
  await run(client, key, [], fence, options);
}

async function set(
  client: RedisClient,
  key: string,
  value: string | Uint8Array,
  fence: Fence,
  options: GuardKeyOptions = {},
): Promise<void> {
  if (typeof value !== "string" && !(value instanceof Uint8Array)) {
    throw new InvalidArgumentError("the value of guardKey.set is a string or bytes", { key });
  }
  await run(client, key, [value], fence, options);
}

export const guardKey: GuardKey = Object.assign(claim, { set, fenceName });

function fenceName(key: string): string {
  // What stands between the first braces decides the slot; a key without them is hashed as a whole.
  return /\{[^}]+\}/.test(key) ? `${key}:fence` : `{${key}}:fence`;
}

async function run(
  client: RedisClient,
  key: string,
  value: readonly (string | Uint8Array)[],
  fence: Fence,
  { lock = key }: GuardKeyOptions,
): Promise<void> {
  checkKey(key);
  const number = fenceOf(fence, lock);
  const seen = String(await evaluate(client, [key, fenceName(key)], [String(number), ...value]));
  if (seen !== "") throw staleError(`the Redis key ${showKey(key)}`, lock, number, BigInt(seen));
}

type Args = readonly (string | Uint8Array)[];

interface Evaluator {
  eval?(script: string, ...rest: readonly unknown[]): Promise<unknown>;
  readonly status?: unknown;
  sendCommand?: unknown;
}

function evaluate(client: RedisClient, keys: readonly string[], args: Args): Promise<unknown> {
  const shape = client as Evaluator | null;
  if (typeof shape === "object" && shape !== null && typeof shape.eval === "function") {
    const values = args.map((arg) => (typeof arg === "string" ? arg : Buffer.from(arg)));
    // ioredis has a word for its state, node-redis has not.
    if (typeof shape.status === "string") return shape.eval(SCRIPT, keys.length, ...keys, ...values);
    if (typeof shape.sendCommand === "function") {
      return shape.eval(SCRIPT, { keys: [...keys], arguments: values });
    }
  }
  throw new InvalidArgumentError("guardKey takes a client of node-redis (4 to 6) or of ioredis (5 or 6)");
}

// A Redis key that refuses stale holders. The fence stands beside the value under a name of its own, in the same hash slot, and is
// compared and raised in one script. It is kept without an end: one that expired would let an old holder in.

import { InvalidArgumentError } from "../core/errors.ts";
import { showKey } from "../core/key.ts";
import { readFence } from "./fence.ts";
import type { KeyClaim } from "./key.ts";

/** node-redis (4 to 6) or ioredis (5 or 6), plain, sentinel or cluster, known by its shape. */
export type RedisClient = object;

// Fences are longer than what a Lua number keeps exact, so they are compared as text: longer is larger.
// Returns nothing, the larger fence, or what stands there instead of a fence.
const SCRIPT = `
local fence, seen = ARGV[1], redis.pcall('GET', KEYS[2]) or '0'
if type(seen) == 'table' then return seen.err end
if not string.match(seen, '^%d+$') or #seen > 19 then return 'damaged ' .. seen end
if #seen > #fence or (#seen == #fence and seen > fence) then return seen end
redis.call('SET', KEYS[2], fence)
if ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end
return ''
`;

export const redisKey: KeyClaim = {
  what: (key) => `the Redis key ${showKey(key)}`,
  async claim(client, { key, fenceName, fence, value }) {
    const values = value === null ? [] : [value];
    const seen = String(await evaluate(client, [key, fenceName], [String(fence), ...values]));
    return seen === "" ? null : readFence(redisKey.what(key), key, seen);
  },
};

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
  throw new InvalidArgumentError(
    "guardKey takes a client of node-redis (4 to 6), of ioredis (5 or 6), of etcd3, or etcdGateway(url)",
  );
}

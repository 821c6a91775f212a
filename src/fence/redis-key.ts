// Guards a Redis key. A script compares and raises the fence, which is stored in a key of its own in the same
// hash slot. That key has no expiry: without it, a stale holder could claim the key again.

import { InvalidArgumentError } from "../core/errors.ts";
import { showKey } from "../core/key.ts";
import { readFence } from "./fence.ts";
import type { KeyClaim } from "./key.ts";

/** A client of node-redis (4 to 6) or ioredis (5 or 6): one node, Sentinel or Cluster. */
export type RedisClient = object;

// A Lua number is a double and cannot represent every fence, so the script compares them as text: more digits
// mean a larger number. Returns "" on success, the larger stored fence, or the stored text if it is no fence.
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
    // Only ioredis has the property `status`.
    if (typeof shape.status === "string") return shape.eval(SCRIPT, keys.length, ...keys, ...values);
    if (typeof shape.sendCommand === "function") {
      return shape.eval(SCRIPT, { keys: [...keys], arguments: values });
    }
  }
  throw new InvalidArgumentError(
    "client must be a client of node-redis (4 to 6), ioredis (5 or 6) or etcd3, or etcdGateway(url)",
  );
}

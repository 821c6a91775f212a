// The libraries that are measured side by side, each behind the same small face: take a key, and give it back.
// Every one has a client of its own and waits in its own way, with as many tries as it takes; delays are its
// defaults. "bare" is SET NX PX and a compare-and-delete script over a plain client: no fence, no queue, no
// renewal.

import { createLock as microfleetLock } from "@microfleet/ioredis-lock";
import { Verrou } from "@verrou/core";
import { redisStore } from "@verrou/core/drivers/redis";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Mutex } from "redis-semaphore";
import Redlock4 from "redlock";
import Redlock5 from "redlock-5";
import { createLock as universalLock, IoredisAdapter } from "redlock-universal";
import { createLocks } from "holdfast";
import { redis } from "holdfast/redis";

export type Library =
  | "bare ioredis"
  | "bare node-redis"
  | "holdfast"
  | "holdfast, node-redis"
  | "holdfast, ioredis"
  | "redlock 4"
  | "redlock 5"
  | "redis-semaphore"
  | "redlock-universal"
  | "@verrou/core"
  | "@microfleet/ioredis-lock";

export const PEERS: readonly Library[] = [
  "redlock 4",
  "redlock 5",
  "redis-semaphore",
  "redlock-universal",
  "@verrou/core",
  "@microfleet/ioredis-lock",
];

/** Those that take a key by SET, and not by a script. */
const BY_SET: readonly string[] = [
  "bare ioredis",
  "bare node-redis",
  "redis-semaphore",
  "redlock-universal",
  "@verrou/core",
  "@microfleet/ioredis-lock",
];

/** Commands that came from outside. */
export function commandsOf(
  library: string,
  done: { readonly scripts: number; readonly sets: number },
): number {
  return done.scripts + (BY_SET.includes(library) ? done.sets : 0);
}

export interface Contender {
  /** Gives the way to give it back. */
  take(key: string): Promise<() => Promise<unknown>>;
  end(): Promise<void>;
}

/** holdfast with connections of its own, and with a package. */
const DRIVERS: Readonly<Record<string, { readonly driver?: "redis" | "ioredis" }>> = {
  holdfast: {},
  "holdfast, node-redis": { driver: "redis" },
  "holdfast, ioredis": { driver: "ioredis" },
};
const TTL_MS = 30_000;
const NOT_EXISTING = { expiration: { type: "PX", value: TTL_MS }, condition: "NX" } as const;
const FOR_EVER = 1_000_000;
const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/** `options`: of createLocks. */
export async function contender(library: Library, url: string, options: object = {}): Promise<Contender> {
  if (library === "bare node-redis") return bareNodeRedis(url);
  if (library in DRIVERS) {
    const locks = createLocks(redis({ url, ...DRIVERS[library] }), options);
    const wait = Number.POSITIVE_INFINITY;
    return {
      take: async (key) => {
        const lease = await locks.acquire(key, { wait });
        return () => lease.release();
      },
      end: () => locks.close(),
    };
  }
  const client = new Redis(url);
  const end = (): Promise<void> => Promise.resolve(client.disconnect());
  return { take: await taker(library, client), end };
}

async function taker(library: Library, client: Redis): Promise<Contender["take"]> {
  switch (library) {
    case "bare ioredis": {
      const sha = String(await client.script("LOAD", RELEASE));
      return async (key) => {
        const id = nextId();
        while ((await client.set(key, id, "PX", TTL_MS, "NX")) === null) await pause(10);
        return () => client.evalsha(sha, 1, key, id);
      };
    }
    case "redlock 4": {
      const redlock = new Redlock4([client], { retryCount: FOR_EVER });
      return async (key) => {
        const lock = await redlock.lock(key, TTL_MS);
        return () => lock.unlock();
      };
    }
    case "redlock 5": {
      const redlock = new Redlock5([client], { retryCount: FOR_EVER });
      return async (key) => {
        const lock = await redlock.acquire([key], TTL_MS);
        return () => lock.release();
      };
    }
    case "redis-semaphore":
      return async (key) => {
        const mutex = new Mutex(client, key, {
          lockTimeout: TTL_MS,
          acquireTimeout: FOR_EVER,
        });
        await mutex.acquire();
        return () => mutex.release();
      };
    case "redlock-universal": {
      const adapter = new IoredisAdapter(client);
      return async (key) => {
        const lock = universalLock({
          adapter,
          key,
          ttl: TTL_MS,
          retryAttempts: FOR_EVER,
          performance: "lean",
        });
        const handle = await lock.acquire();
        return () => lock.release(handle);
      };
    }
    case "@verrou/core": {
      const verrou = new Verrou({
        default: "redis",
        stores: { redis: { driver: redisStore({ connection: client }) } },
      });
      return async (key) => {
        const lock = verrou.createLock(key, TTL_MS);
        await lock.acquire({ retry: { attempts: FOR_EVER } });
        return () => lock.release();
      };
    }
    default:
      return async (key) => {
        const lock = microfleetLock(client, {
          timeout: TTL_MS,
          retries: FOR_EVER,
        });
        await lock.acquire(key);
        return () => lock.release();
      };
  }
}

async function bareNodeRedis(url: string): Promise<Contender> {
  const client = createClient({ url });
  await client.connect();
  const sha = await client.scriptLoad(RELEASE);
  return {
    take: async (key) => {
      const id = nextId();
      while ((await client.set(key, id, NOT_EXISTING)) === null) await pause(10);
      return () => client.evalSha(sha, { keys: [key], arguments: [id] });
    },
    end: () => client.close(),
  };
}

let lastId = 0;
function nextId(): string {
  lastId += 1;
  return `${process.pid}-0123456789abcdef-${lastId}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

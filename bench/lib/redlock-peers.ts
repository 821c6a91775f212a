// What takes a key on a majority of five masters, each behind the same small face. Every one has clients of its own and waits in
// its own way, with as many tries as it takes; delays are its defaults.

import { Redis } from "ioredis";
import { RedlockMutex } from "redis-semaphore";
import Redlock4 from "redlock";
import Redlock5 from "redlock-5";
import { createRedlock, IoredisAdapter } from "redlock-universal";
import { createLocks } from "holdfast";
import type { Contender } from "./redis-peers.ts";

export type Library =
  | "bare"
  | "holdfast"
  | "redlock 4"
  | "redlock 5"
  | "redlock-universal"
  | "redis-semaphore";

export const PEERS: readonly Library[] = ["redlock 4", "redlock 5", "redlock-universal", "redis-semaphore"];

const TTL_MS = 30_000;
const FOR_EVER = 1_000_000;
const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

export function redlockUrl(urls: readonly string[]): string {
  return `redlock://${urls.map((url) => new URL(url).host).join(",")}`;
}

/** `options`: of createLocks. */
export async function contender(
  library: Library,
  urls: readonly string[],
  options: object = {},
): Promise<Contender> {
  if (library === "holdfast") {
    const locks = createLocks(redlockUrl(urls), { allow: ["fresh-nodes"], ...options });
    const wait = Number.POSITIVE_INFINITY;
    return {
      take: async (key) => {
        const lease = await locks.acquire(key, { wait });
        return () => lease.release();
      },
      end: () => locks.close(),
    };
  }
  const clients = urls.map((url) => new Redis(url, { enableAutoPipelining: library === "bare" }));
  for (const client of clients) client.on("error", () => {});
  const end = (): Promise<void> => Promise.resolve(clients.forEach((client) => client.disconnect()));
  return { take: await taker(library, clients), end };
}

async function taker(library: Exclude<Library, "holdfast">, clients: Redis[]): Promise<Contender["take"]> {
  switch (library) {
    case "bare":
      return bare(clients);
    case "redlock 4": {
      const redlock = new Redlock4(clients, { retryCount: FOR_EVER });
      return async (key) => {
        const lock = await redlock.lock(key, TTL_MS);
        return () => lock.unlock();
      };
    }
    case "redlock 5": {
      const redlock = new Redlock5(clients, { retryCount: FOR_EVER });
      return async (key) => {
        const lock = await redlock.acquire([key], TTL_MS);
        return () => lock.release();
      };
    }
    case "redlock-universal": {
      const adapters = clients.map((client) => new IoredisAdapter(client));
      return async (key) => {
        const lock = createRedlock({ adapters, key, ttl: TTL_MS, retryAttempts: FOR_EVER });
        const handle = await lock.acquire();
        return () => lock.release(handle);
      };
    }
    default:
      return async (key) => {
        const mutex = new RedlockMutex(clients, key, { lockTimeout: TTL_MS, acquireTimeout: FOR_EVER });
        await mutex.acquire();
        return () => mutex.release();
      };
  }
}

/** What is the least that can be done: SET NX PX on all nodes, and compare and delete. */
async function bare(clients: readonly Redis[]): Promise<Contender["take"]> {
  const shas = await Promise.all(clients.map((client) => client.script("LOAD", RELEASE)));
  let number = 0;
  const give = (key: string, id: string): Promise<unknown> =>
    Promise.all(clients.map((client, at) => client.evalsha(String(shas[at]), 1, key, id)));
  return async (key) => {
    const id = `${process.pid}-0123456789abcdef-${number++}`;
    for (;;) {
      const answers = await Promise.all(clients.map((client) => client.set(key, id, "PX", TTL_MS, "NX")));
      if (answers.filter((answer) => answer === "OK").length > clients.length / 2) return () => give(key, id);
      await give(key, id);
      await new Promise((resolve) => setTimeout(resolve, 10 * Math.random()));
    }
  };
}

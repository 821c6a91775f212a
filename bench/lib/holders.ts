// What holds a key and keeps it, by each library's own means: how its documentation says to renew, and how it tells of a loss. One
// that has no renewal of its own gets a timer at half its ttl, and its refusal counts as being told.

import { createLock as microfleetLock } from "@microfleet/ioredis-lock";
import { Verrou } from "@verrou/core";
import { redisStore } from "@verrou/core/drivers/redis";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock4 from "redlock";
import Redlock5 from "redlock-5";
import { createLock as universalLock, IoredisAdapter } from "redlock-universal";
import { createLocks } from "holdfast";

export const HOLDERS = [
  "holdfast",
  "redlock 4",
  "redlock 5",
  "redis-semaphore",
  "redlock-universal",
  "@verrou/core",
  "@microfleet/ioredis-lock",
] as const;
export type HolderName = (typeof HOLDERS)[number];

/** A key that is held. */
export interface Held {
  /** What the library says when it is asked, in this very moment; null where it cannot be asked. */
  held(): boolean | null;
  release(): Promise<unknown>;
}

/** Waits for the key for as long as it takes. `lost` is called once the library tells that the key is lost. */
export type Take = (key: string, ttlMs: number, lost: () => void) => Promise<Held>;

const FOR_EVER = 1_000_000;

export function holderOf(name: HolderName, url: string): Take {
  if (name === "holdfast") return holdfast(url);
  const client = new Redis(url);
  client.on("error", () => {});
  switch (name) {
    case "redlock 4":
      return redlock4(client);
    case "redlock 5":
      return redlock5(client);
    case "redis-semaphore":
      return semaphore(client);
    case "redlock-universal":
      return universal(client);
    case "@verrou/core":
      return verrou(client);
    default:
      return microfleet(client);
  }
}

function holdfast(url: string): Take {
  const locks = createLocks(url);
  return async (key, ttl, lost) => {
    const lease = await locks.acquire(key, { ttl, wait: Number.POSITIVE_INFINITY });
    lease.signal.addEventListener("abort", lost, { once: true });
    return { held: () => lease.held, release: () => lease.release() };
  };
}

function redlock4(client: Redis): Take {
  const redlock = new Redlock4([client], { retryCount: FOR_EVER });
  return async (key, ttlMs, lost) => {
    let lock = await redlock.lock(key, ttlMs);
    const stop = every(ttlMs / 2, async () => void (lock = await lock.extend(ttlMs)), lost);
    return {
      held: () => lock.expiration > Date.now(),
      release: () => (stop(), lock.unlock()),
    };
  };
}

function redlock5(client: Redis): Take {
  const redlock = new Redlock5([client], { retryCount: FOR_EVER });
  redlock.on("error", () => {});
  return (key, ttlMs, lost) =>
    inside((entered, left) =>
      redlock
        .using([key], ttlMs, async (signal) => {
          signal.addEventListener("abort", lost, { once: true });
          await entered(() => !signal.aborted);
        })
        .then(left, left),
    );
}

function universal(client: Redis): Take {
  const adapter = new IoredisAdapter(client);
  return (key, ttl, lost) =>
    inside((entered, left) =>
      universalLock({ adapter, key, ttl, retryAttempts: FOR_EVER, performance: "lean" })
        .using(async (signal) => {
          signal.addEventListener("abort", lost, { once: true });
          await entered(() => !signal.aborted);
        })
        .then(left, left),
    );
}

function semaphore(client: Redis): Take {
  return async (key, lockTimeout, lost) => {
    const mutex = new Mutex(client, key, { lockTimeout, acquireTimeout: FOR_EVER, onLockLost: lost });
    await mutex.acquire();
    return { held: () => mutex.isAcquired, release: () => mutex.release() };
  };
}

function verrou(client: Redis): Take {
  const stores = { redis: { driver: redisStore({ connection: client }) } };
  const all = new Verrou({ default: "redis", stores });
  return async (key, ttlMs, lost) => {
    const lock = all.createLock(key, ttlMs);
    await lock.acquire({ retry: { attempts: FOR_EVER } });
    const stop = every(ttlMs / 2, () => lock.extend(ttlMs), lost);
    return { held: () => !lock.isExpired(), release: () => (stop(), lock.release()) };
  };
}

function microfleet(client: Redis): Take {
  return async (key, ttlMs, lost) => {
    const lock = microfleetLock(client, { timeout: ttlMs, retries: FOR_EVER });
    await lock.acquire(key);
    const stop = every(ttlMs / 2, () => lock.extend(ttlMs), lost);
    return { held: () => null, release: () => (stop(), lock.release()) };
  };
}

/** Renews by a timer until it is stopped or refused. */
function every(ms: number, renew: () => Promise<unknown>, lost: () => void): () => void {
  const timer = setInterval(() => {
    renew().catch(() => {
      clearInterval(timer);
      lost();
    });
  }, ms);
  return () => clearInterval(timer);
}

/** A library that holds a key for as long as a callback runs. */
function inside(
  run: (entered: (held: () => boolean) => Promise<void>, left: () => void) => unknown,
): Promise<Held> {
  return new Promise((resolve) => {
    let [leave, left] = [(): void => {}, (): void => {}];
    const over = new Promise<void>((resolve_) => (left = resolve_));
    run((held) => {
      const stay = new Promise<void>((resolve_) => (leave = resolve_));
      resolve({ held, release: () => (leave(), over) });
      return stay;
    }, left);
  });
}

// The compat layers take what the libraries take. Compiled, never run.

import type { Locks } from "holdfast";
import type { Cluster, Redis } from "ioredis";
import type { Pool } from "pg";
import { expectTypeOf } from "vitest";
import { Mutex as ProcessMutex, Semaphore as ProcessSemaphore } from "../../src/compat/async-mutex.ts";
import { lock, lockSync } from "../../src/compat/proper-lockfile.ts";
import { Mutex, RedlockMutex, Semaphore } from "../../src/compat/redis-semaphore.ts";
import Redlock, { type Lock } from "../../src/compat/redlock.ts";

const use = (made: object): object => made;

export function clients(redis: Redis, cluster: Cluster, locks: Locks, pool: Pool): void {
  const redlock = new Redlock([redis], { retryCount: -1 });
  expectTypeOf(redlock.acquire(["a"], 1_000)).toEqualTypeOf<Promise<Lock>>();
  expectTypeOf(redlock.using(["a"], 1_000, async () => 5)).toEqualTypeOf<Promise<number>>();
  use(new Redlock([cluster]));
  use(new Redlock(locks));
  use(new Mutex(redis, "a", { lockTimeout: 1_000 }));
  use(new Mutex(cluster, "a"));
  use(new Semaphore(locks, "a", 3));
  use(new RedlockMutex([redis, redis, redis], "a"));
  // @ts-expect-error: a pool of another database
  use(new Redlock([pool]));
  // @ts-expect-error: unknown setting
  use(new Redlock([redis], { retries: 3 }));
  // @ts-expect-error: a pool of another database
  use(new Mutex(pool, "a"));
  // @ts-expect-error: a limit is required
  use(new Semaphore(redis, "a"));
  // @ts-expect-error: several masters
  use(new RedlockMutex(redis, "a"));
}

export function processes(locks: Locks, pool: Pool): void {
  use(new ProcessMutex(locks, "a"));
  expectTypeOf(new ProcessMutex(locks, "a").runExclusive(() => 5)).toEqualTypeOf<Promise<number>>();
  expectTypeOf(lock("a", { stale: 5_000, retries: { forever: true } })).toEqualTypeOf<
    Promise<() => Promise<void>>
  >();
  expectTypeOf(lockSync).returns.toBeNever();
  // @ts-expect-error: a key is required
  use(new ProcessMutex(locks));
  // @ts-expect-error: a value is required
  use(new ProcessSemaphore(locks, "a"));
  // @ts-expect-error: a pool of a database
  use(new ProcessMutex(pool, "a"));
  // @ts-expect-error: there is no lock file
  void lock("a", { fs: {} });
}

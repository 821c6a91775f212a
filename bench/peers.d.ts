// The slices of the peers that the bench uses. They are installed apart, so the tree type-checks without them.

declare module "etcd3" {
  export class EtcdLockFailedError extends Error {}
  export class Etcd3 {
    constructor(options: { hosts: readonly string[] });
    lock(key: string): {
      ttl(seconds: number): { acquire(): Promise<unknown>; release(): Promise<void> };
    };
  }
}

declare module "redlock" {
  export default class Redlock {
    constructor(clients: readonly object[], options: { retryCount: number });
    lock(key: string, ttlMs: number): Promise<Lock>;
  }
  export interface Lock {
    readonly expiration: number;
    extend(ttlMs: number): Promise<Lock>;
    unlock(): Promise<unknown>;
  }
}

declare module "redlock-5" {
  export default class Redlock {
    constructor(clients: readonly object[], options: { retryCount: number });
    acquire(keys: readonly string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>;
    using(
      keys: readonly string[],
      ttlMs: number,
      routine: (signal: AbortSignal) => Promise<void>,
    ): Promise<unknown>;
    on(event: "error", listener: (error: unknown) => void): this;
  }
}

declare module "redis-semaphore" {
  export class Mutex {
    readonly isAcquired: boolean;
    constructor(
      client: object,
      key: string,
      options: { lockTimeout: number; acquireTimeout: number; onLockLost?: () => void },
    );
    acquire(): Promise<void>;
    release(): Promise<void>;
  }
  export class RedlockMutex {
    constructor(
      clients: readonly object[],
      key: string,
      options: { lockTimeout: number; acquireTimeout: number },
    );
    acquire(): Promise<void>;
    release(): Promise<void>;
  }
  export class Semaphore {
    constructor(client: object, key: string, limit: number, options: { acquireTimeout: number });
    acquire(): Promise<void>;
    release(): Promise<void>;
  }
}

declare module "redlock-universal" {
  export const IoredisAdapter: new (client: object) => object;
  export function createLock(options: {
    adapter: object;
    key: string;
    ttl: number;
    retryAttempts: number;
    performance: "lean";
  }): {
    acquire(): Promise<object>;
    release(handle: object): Promise<unknown>;
    using(routine: (signal: AbortSignal) => Promise<void>): Promise<unknown>;
  };
  export function createRedlock(options: {
    adapters: readonly object[];
    key: string;
    ttl: number;
    retryAttempts: number;
  }): { acquire(): Promise<object>; release(handle: object): Promise<unknown> };
}

declare module "@verrou/core" {
  export class Verrou {
    constructor(options: object);
    createLock(
      key: string,
      ttlMs: number,
    ): {
      acquire(options: { retry: { attempts: number } }): Promise<boolean>;
      extend(ttlMs: number): Promise<void>;
      isExpired(): boolean;
      release(): Promise<void>;
    };
  }
}

declare module "@verrou/core/drivers/redis" {
  export function redisStore(options: { connection: object }): object;
}

declare module "@microfleet/ioredis-lock" {
  export function createLock(
    client: object,
    options: { timeout: number; retries: number },
  ): {
    acquire(key: string): Promise<unknown>;
    extend(ttlMs: number): Promise<unknown>;
    release(): Promise<unknown>;
  };
}

declare module "@verrou/core/drivers/knex" {
  export function knexStore(options: { connection: unknown }): object;
}

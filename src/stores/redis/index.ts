// `holdfast/redis`: locks on one Redis or Valkey node. This file stays light: the client and the rest of the store are loaded
// when a store is opened, never on import.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { redisGuarantees } from "./guarantees.ts";

export { redisGuarantees } from "./guarantees.ts";

export interface RedisOptions {
  /** A connected client of node-redis (4 to 6) or ioredis (5, 6). It is never changed and never closed. */
  readonly client?: object;
  /** Instead of a client: `redis://user:password@host:port/db`, or `rediss://` for TLS. */
  readonly url?: string;
  /** Which package to load for a URL; default whichever is installed, `redis` first. */
  readonly driver?: "redis" | "ioredis";
}

const OPTIONS = ["client", "url", "driver"];

export function redis(options: RedisOptions): Store {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `redis() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { client, url, driver } = options;
  if ((client === undefined) === (url === undefined))
    throw new InvalidArgumentError("redis() takes either a client or a url");
  if (driver !== undefined && driver !== "redis" && driver !== "ioredis")
    throw new InvalidArgumentError(`driver is "redis" or "ioredis", not ${JSON.stringify(driver)}`);
  if (url !== undefined) checkUrl(url);
  return {
    name: "redis",
    guarantees: redisGuarantees,
    async open(env: StoreEnv): Promise<OpenStore> {
      const [{ RedisOpenStore }, clients] = await Promise.all([import("./store.ts"), import("./clients.ts")]);
      return RedisOpenStore.open(
        () => (url === undefined ? clients.portOf(client) : clients.connectTo(url, driver)),
        env,
      );
    },
  };
}

/** `redis://...` or `rediss://...`. */
export function redisByUrl(url: string): Store {
  return redis({ url });
}

/** The URL itself is never shown: it may hold a password. */
function checkUrl(url: string): void {
  if (typeof url === "string" && /^rediss?:\/\//.test(url) && URL.canParse(url)) return;
  throw new InvalidArgumentError("the URL of a Redis is redis://host:port or rediss://host:port");
}

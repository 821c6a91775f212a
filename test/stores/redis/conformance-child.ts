// How a child process of the suite gets at a Redis.

import { redis } from "../../../src/stores/redis/index.ts";
import type { Store } from "../../../src/index.ts";

export function createStore(url: string, driver: "redis" | "ioredis" | "", variant = "{}"): Store {
  return redis({ url, driver: driver === "" ? undefined : driver, ...(JSON.parse(variant) as object) });
}

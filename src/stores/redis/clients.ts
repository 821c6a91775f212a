// Which client: one that was given is known by its shape, never by its class, because two copies of a package have two
// classes; by URL whichever package is installed is loaded.

import { InvalidArgumentError, UnsupportedError } from "../../core/errors.ts";
import { IoredisPort, type IoredisClass, isIoredis } from "./ioredis.ts";
import { isNodeRedis, type NodeRedisModule, NodeRedisPort } from "./node-redis.ts";
import type { RedisPort } from "./port.ts";

export type Driver = "redis" | "ioredis";

export function portOf(client: unknown): RedisPort {
  if (typeof client === "object" && client !== null) {
    if (isIoredis(client)) return new IoredisPort(client, false);
    if (isNodeRedis(client)) return new NodeRedisPort(client, false);
    if ((client as { isCluster?: unknown }).isCluster === true || "masters" in client) {
      throw new UnsupportedError(
        "redis() takes a client of one Redis node, and this is a client of a Cluster",
      );
    }
  }
  throw new InvalidArgumentError(
    "redis({ client }) takes a client of node-redis (4 to 6) or of ioredis (5 or 6)",
  );
}

export async function connectTo(url: string, driver: Driver | undefined): Promise<RedisPort> {
  if (driver !== "ioredis") {
    const module = await optional(() => import("redis"));
    if (module !== null) return NodeRedisPort.connect(module as unknown as NodeRedisModule, url);
  }
  if (driver !== "redis") {
    const module = await optional(() => import("ioredis"));
    if (module !== null) return IoredisPort.connect(module.Redis as unknown as IoredisClass, url);
  }
  throw new UnsupportedError(`the redis store needs a client: npm i ${driver ?? "redis"}`);
}

/** null when the package is not installed. Any other failure is its own. */
async function optional<T>(load: () => Promise<T>): Promise<T | null> {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code === "ERR_MODULE_NOT_FOUND") return null;
    throw error;
  }
}

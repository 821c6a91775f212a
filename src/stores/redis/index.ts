// `holdfast/redis`: locks on Redis or Valkey: one node, a primary that sentinels name, or a Cluster. The
// client and the rest of the store are loaded when a store is opened, never on import.

import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { guaranteesFor } from "./guarantees.ts";
import { readOptions, type RedisOptions } from "./options.ts";

export { redisClusterGuarantees, redisGuarantees, redisSentinelGuarantees } from "./guarantees.ts";
export type { RedisClient, RedisNodeClient } from "../shared/redis-client-types.ts";
export type { RedisOptions } from "./options.ts";

export function redis(options: RedisOptions): Store {
  const checked = readOptions(options);
  const { client, url, driver, tls } = checked;
  return {
    name: "redis",
    guarantees: guaranteesFor(checked),
    load: () =>
      Promise.all([
        import("./store.ts"),
        import("./client/connect.ts").then(({ loadDriver }) =>
          url === undefined ? null : loadDriver(driver),
        ),
      ]),
    async open(env: StoreEnv): Promise<OpenStore> {
      const [{ RedisOpenStore }, { connectByClient, connectByUrl }] = await Promise.all([
        import("./store.ts"),
        import("./client/connect.ts"),
      ]);
      return RedisOpenStore.open(
        (topologyEnv) =>
          url === undefined
            ? connectByClient(client, topologyEnv)
            : connectByUrl(url, { driver, tls }, topologyEnv),
        env,
        checked,
      );
    },
  };
}

/** `redis://`, `redis+sentinel://`, `redis+cluster://`, and the same with `rediss`, `valkey` or `valkeys`. */
export function redisByUrl(url: string): Store {
  return redis({ url });
}

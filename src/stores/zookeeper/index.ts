// `holdfast/zookeeper`: locks on a ZooKeeper ensemble, with a client of our own. This file stays light: the
// rest of the store is loaded when a store is opened, never on import.

import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { zookeeperGuarantees } from "./guarantees.ts";
import { readOptions, type ZooKeeperOptions } from "./options.ts";

export { zookeeperGuarantees } from "./guarantees.ts";
export type { ZooKeeperOptions } from "./options.ts";

export function zookeeper(options: ZooKeeperOptions): Store {
  const settings = readOptions(options);
  return {
    name: "zookeeper",
    guarantees: zookeeperGuarantees(settings.sessionMs),
    load,
    async open(env: StoreEnv): Promise<OpenStore> {
      const { ZooKeeperOpenStore } = await load();
      return ZooKeeperOpenStore.open(settings, env);
    },
  };
}

const load = () => import("./store.ts");

/** `zookeeper://...` or `zookeepers://...`. */
export function zookeeperByUrl(url: string): Store {
  return zookeeper({ url });
}

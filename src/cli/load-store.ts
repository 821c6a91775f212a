// Loads the store of a URL, so that a command starts with the code of one store only.

import type { Store } from "../surface.ts";
import type { LocalStore } from "../stores/local/index.ts";
import { type StoreName, storeNameOf } from "../stores/schemes.ts";

type Maker = (url: string) => Store;

const LOADERS: Readonly<Record<Exclude<StoreName, "local">, () => Promise<Maker>>> = {
  etcd: async () => (await import("../stores/etcd/index.ts")).etcdByUrl,
  memory: async () => (await import("../stores/memory/index.ts")).memoryByUrl,
  mysql: async () => (await import("../stores/mysql/index.ts")).mysqlByUrl,
  postgres: async () => (await import("../stores/postgres/index.ts")).postgresByUrl,
  redis: async () => (await import("../stores/redis/index.ts")).redisByUrl,
  redlock: async () => (await import("../stores/redlock/index.ts")).redlockByUrl,
  zookeeper: async () => (await import("../stores/zookeeper/index.ts")).zookeeperByUrl,
};

export type LoadedStore =
  | { readonly isLocal: true; readonly store: LocalStore }
  | { readonly isLocal: false; readonly store: Store };

/** @throws InvalidArgumentError for a URL with an unknown scheme. */
export async function loadStore(url: string): Promise<LoadedStore> {
  const name = storeNameOf(url);
  if (name !== "local") return { isLocal: false, store: (await LOADERS[name]())(url) };
  const { localByUrl } = await import("../stores/local/index.ts");
  return { isLocal: true, store: localByUrl(url) };
}

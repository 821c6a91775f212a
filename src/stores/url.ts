// URL -> store. Only descriptions are imported here; a store loads its client when it is opened.

import type { Store } from "../core/store.ts";
import { etcdByUrl } from "./etcd/index.ts";
import { localByUrl } from "./local/index.ts";
import { memoryByUrl } from "./memory/index.ts";
import { mysqlByUrl } from "./mysql/index.ts";
import { postgresByUrl } from "./postgres/index.ts";
import { redisByUrl } from "./redis/index.ts";
import { redlockByUrl } from "./redlock/index.ts";
import { type StoreName, storeNameOf } from "./schemes.ts";
import { zookeeperByUrl } from "./zookeeper/index.ts";

const MAKERS: Readonly<Record<StoreName, (url: string) => Store>> = {
  etcd: etcdByUrl,
  local: localByUrl,
  memory: memoryByUrl,
  mysql: mysqlByUrl,
  postgres: postgresByUrl,
  redis: redisByUrl,
  redlock: redlockByUrl,
  zookeeper: zookeeperByUrl,
};

export function storeByUrl(url: string): Store {
  return MAKERS[storeNameOf(url)](url);
}

// Every store: how a URL opens it, its modes and what it promises in each of them. URL parsing, tests, fault
// runs, benchmarks and docs read the list, so a new store is one folder, one row here and one in schemes.ts.
// Only descriptions are imported here: a store loads its client when it is opened.

import type { Guarantees, Store } from "../core/store.ts";
import { etcdByUrl, etcdExclusiveGuarantees, etcdGuarantees } from "./etcd/index.ts";
import { localByUrl, localGuarantees } from "./local/index.ts";
import { memoryByUrl, memoryGuarantees } from "./memory/index.ts";
import { mysqlByUrl, mysqlGuarantees, mysqlRowGuarantees } from "./mysql/index.ts";
import { advisoryGuarantees, postgresByUrl, postgresGuarantees } from "./postgres/index.ts";
import {
  redisByUrl,
  redisClusterGuarantees,
  redisGuarantees,
  redisSentinelGuarantees,
} from "./redis/index.ts";
import { redlockByUrl, redlockGuarantees } from "./redlock/index.ts";
import { type StoreName, storeNameOf } from "./schemes.ts";
import { zookeeperByUrl, zookeeperGuarantees } from "./zookeeper/index.ts";

interface StoreMode {
  /** As tests, fault runs and benchmarks call it: the name of the store, or `store-mode`. */
  readonly name: string;
  /** As the docs call it. */
  readonly title: string;
  readonly guarantees: Guarantees;
}

interface StoreEntry {
  readonly byUrl: (url: string) => Store;
  /** The default mode first. */
  readonly modes: readonly StoreMode[];
}

const stores: Readonly<Record<StoreName, StoreEntry>> = {
  etcd: {
    byUrl: etcdByUrl,
    modes: [
      { name: "etcd", title: "etcd", guarantees: etcdGuarantees },
      { name: "etcd-exclusive", title: "etcd, `order=exclusive`", guarantees: etcdExclusiveGuarantees },
    ],
  },
  local: {
    byUrl: localByUrl,
    modes: [{ name: "local", title: "local", guarantees: localGuarantees }],
  },
  memory: {
    byUrl: memoryByUrl,
    modes: [{ name: "memory", title: "memory", guarantees: memoryGuarantees }],
  },
  mysql: {
    byUrl: mysqlByUrl,
    modes: [
      { name: "mysql", title: "mysql", guarantees: mysqlGuarantees },
      { name: "mysql-row", title: "mysql, row mode", guarantees: mysqlRowGuarantees },
    ],
  },
  postgres: {
    byUrl: postgresByUrl,
    modes: [
      { name: "postgres", title: "postgres", guarantees: postgresGuarantees },
      { name: "postgres-advisory", title: "postgres, advisory", guarantees: advisoryGuarantees },
    ],
  },
  redis: {
    byUrl: redisByUrl,
    modes: [
      { name: "redis", title: "redis", guarantees: redisGuarantees },
      { name: "redis-cluster", title: "redis Cluster", guarantees: redisClusterGuarantees },
      { name: "redis-sentinel", title: "redis with sentinels", guarantees: redisSentinelGuarantees },
    ],
  },
  redlock: {
    byUrl: redlockByUrl,
    modes: [{ name: "redlock", title: "redlock", guarantees: redlockGuarantees }],
  },
  zookeeper: {
    byUrl: zookeeperByUrl,
    modes: [{ name: "zookeeper", title: "zookeeper", guarantees: zookeeperGuarantees() }],
  },
};

/** Every mode of every store. */
export const storeModes: readonly StoreMode[] = Object.values(stores).flatMap(({ modes }) => modes);

/** The store of a URL. */
export function storeByUrl(url: string): Store {
  return stores[storeNameOf(url)].byUrl(url);
}

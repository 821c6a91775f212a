// Every store: its URLs, its modes and what it promises in each of them. URL parsing, tests, fault
// runs, benchmarks and docs read the list, so a new store is one folder and one row. Only descriptions are
// imported here: a store loads its client when it is opened.

import { InvalidArgumentError } from "../core/errors.ts";
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
import { zookeeperByUrl, zookeeperGuarantees } from "./zookeeper/index.ts";

interface StoreMode {
  /** As tests, fault runs and benchmarks call it: the name of the store, or `store-mode`. */
  readonly name: string;
  /** As the docs call it. */
  readonly title: string;
  readonly guarantees: Guarantees;
}

interface StoreEntry {
  /** The first word of its URLs, without the colon. */
  readonly schemes: readonly string[];
  readonly byUrl: (url: string) => Store;
  /** The default mode first. */
  readonly modes: readonly StoreMode[];
}

const REDIS_SCHEMES = ["redis", "rediss", "valkey", "valkeys"];

const stores: readonly StoreEntry[] = [
  {
    schemes: ["etcd", "etcds"],
    byUrl: etcdByUrl,
    modes: [
      { name: "etcd", title: "etcd", guarantees: etcdGuarantees },
      { name: "etcd-exclusive", title: "etcd, `order=exclusive`", guarantees: etcdExclusiveGuarantees },
    ],
  },
  {
    schemes: ["local"],
    byUrl: localByUrl,
    modes: [{ name: "local", title: "local", guarantees: localGuarantees }],
  },
  {
    schemes: ["memory"],
    byUrl: memoryByUrl,
    modes: [{ name: "memory", title: "memory", guarantees: memoryGuarantees }],
  },
  {
    schemes: ["mysql", "mariadb"],
    byUrl: mysqlByUrl,
    modes: [
      { name: "mysql", title: "mysql", guarantees: mysqlGuarantees },
      { name: "mysql-row", title: "mysql, row mode", guarantees: mysqlRowGuarantees },
    ],
  },
  {
    schemes: ["postgres", "postgresql"],
    byUrl: postgresByUrl,
    modes: [
      { name: "postgres", title: "postgres", guarantees: postgresGuarantees },
      { name: "postgres-advisory", title: "postgres, advisory", guarantees: advisoryGuarantees },
    ],
  },
  {
    schemes: REDIS_SCHEMES.flatMap((scheme) => [scheme, `${scheme}+cluster`, `${scheme}+sentinel`]),
    byUrl: redisByUrl,
    modes: [
      { name: "redis", title: "redis", guarantees: redisGuarantees },
      { name: "redis-cluster", title: "redis Cluster", guarantees: redisClusterGuarantees },
      { name: "redis-sentinel", title: "redis with sentinels", guarantees: redisSentinelGuarantees },
    ],
  },
  {
    schemes: ["redlock", "redlocks"],
    byUrl: redlockByUrl,
    modes: [{ name: "redlock", title: "redlock", guarantees: redlockGuarantees }],
  },
  {
    schemes: ["zookeeper", "zookeepers"],
    byUrl: zookeeperByUrl,
    modes: [{ name: "zookeeper", title: "zookeeper", guarantees: zookeeperGuarantees() }],
  },
];

/** Every mode of every store. */
export const storeModes: readonly StoreMode[] = stores.flatMap(({ modes }) => modes);

const bySchemes: ReadonlyMap<string, StoreEntry["byUrl"]> = new Map(
  stores.flatMap(({ schemes, byUrl }) => schemes.map((scheme) => [`${scheme}:`, byUrl] as const)),
);

/** The store of a URL. */
export function storeByUrl(url: string): Store {
  const scheme = /^[a-z][a-z0-9+]*:/.exec(url)?.[0] ?? "";
  const byUrl = bySchemes.get(scheme);
  if (byUrl !== undefined) return byUrl(url);
  // Only the scheme is shown: the rest of a URL may hold a password.
  const shown = JSON.stringify(scheme === "" ? url.slice(0, 12) : scheme);
  const known = [...bySchemes.keys()];
  const similar = known.find((one) => isSimilar(one, scheme));
  const guess = similar === undefined ? "" : ` (did you mean ${similar}?)`;
  throw new InvalidArgumentError(
    `a store must be a URL with a known scheme, got ${shown}${guess}: this version knows ${known.join(" ")}`,
  );
}

/** One letter more, less or other. */
function isSimilar(known: string, given: string): boolean {
  let at = 0;
  while (at < known.length && known[at] === given[at]) at += 1;
  const rests = [given.slice(at), given.slice(at + 1)];
  return given !== "" && (rests.includes(known.slice(at + 1)) || rests[1] === known.slice(at));
}

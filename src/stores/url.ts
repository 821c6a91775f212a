// URL -> store. Only descriptions are imported here; a store loads its client when it is opened.

import { InvalidArgumentError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { etcdByUrl } from "./etcd/index.ts";
import { localByUrl } from "./local/index.ts";
import { memoryByUrl } from "./memory/index.ts";
import { mysqlByUrl } from "./mysql/index.ts";
import { postgresByUrl } from "./postgres/index.ts";
import { redisByUrl } from "./redis/index.ts";
import { redlockByUrl } from "./redlock/index.ts";
import { zookeeperByUrl } from "./zookeeper/index.ts";

const SCHEMES: Readonly<Record<string, (url: string) => Store>> = {
  "etcd:": etcdByUrl,
  "etcds:": etcdByUrl,
  "local:": localByUrl,
  "mariadb:": mysqlByUrl,
  "memory:": memoryByUrl,
  "mysql:": mysqlByUrl,
  "postgres:": postgresByUrl,
  "postgresql:": postgresByUrl,
  "redis:": redisByUrl,
  "redis+cluster:": redisByUrl,
  "redis+sentinel:": redisByUrl,
  "rediss:": redisByUrl,
  "rediss+cluster:": redisByUrl,
  "rediss+sentinel:": redisByUrl,
  "redlock:": redlockByUrl,
  "redlocks:": redlockByUrl,
  "valkey:": redisByUrl,
  "valkey+cluster:": redisByUrl,
  "valkey+sentinel:": redisByUrl,
  "valkeys:": redisByUrl,
  "valkeys+cluster:": redisByUrl,
  "valkeys+sentinel:": redisByUrl,
  "zookeeper:": zookeeperByUrl,
  "zookeepers:": zookeeperByUrl,
};

export function storeByUrl(url: string): Store {
  const scheme = /^[a-z][a-z0-9+]*:/.exec(url)?.[0] ?? "";
  const make = SCHEMES[scheme];
  if (make !== undefined) return make(url);
  // Only the scheme is shown: the rest of a URL may hold a password.
  const shown = JSON.stringify(scheme === "" ? url.slice(0, 12) : scheme);
  const like = Object.keys(SCHEMES).find((known) => near(known, scheme));
  const guess = like === undefined ? "" : ` (did you mean ${like}?)`;
  throw new InvalidArgumentError(
    `there is no store for a URL that starts with ${shown}${guess}: this version knows ${Object.keys(SCHEMES).join(" ")}`,
  );
}

/** One letter more, less or other. */
function near(known: string, given: string): boolean {
  let at = 0;
  while (at < known.length && known[at] === given[at]) at += 1;
  const rests = [given.slice(at), given.slice(at + 1)];
  return given !== "" && (rests.includes(known.slice(at + 1)) || rests[1] === known.slice(at));
}

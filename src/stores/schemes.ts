// URL scheme -> name of the store. Data only, so that the command can load the one store that it uses.

import { InvalidArgumentError } from "../core/errors.ts";

export type StoreName =
  | "etcd"
  | "local"
  | "memory"
  | "mysql"
  | "postgres"
  | "redis"
  | "redlock"
  | "zookeeper";

const SCHEMES: Readonly<Record<string, StoreName>> = {
  "etcd:": "etcd",
  "etcds:": "etcd",
  "local:": "local",
  "mariadb:": "mysql",
  "memory:": "memory",
  "mysql:": "mysql",
  "postgres:": "postgres",
  "postgresql:": "postgres",
  "redis:": "redis",
  "redis+cluster:": "redis",
  "redis+sentinel:": "redis",
  "rediss:": "redis",
  "rediss+cluster:": "redis",
  "rediss+sentinel:": "redis",
  "redlock:": "redlock",
  "redlocks:": "redlock",
  "valkey:": "redis",
  "valkey+cluster:": "redis",
  "valkey+sentinel:": "redis",
  "valkeys:": "redis",
  "valkeys+cluster:": "redis",
  "valkeys+sentinel:": "redis",
  "zookeeper:": "zookeeper",
  "zookeepers:": "zookeeper",
};

/** @throws InvalidArgumentError for a URL that no store has. */
export function storeNameOf(url: string): StoreName {
  const scheme = /^[a-z][a-z0-9+]*:/.exec(url)?.[0] ?? "";
  const name = SCHEMES[scheme];
  if (name !== undefined) return name;
  // Only the scheme is shown: the rest of a URL may hold a password.
  const shown = JSON.stringify(scheme === "" ? url.slice(0, 12) : scheme);
  const like = Object.keys(SCHEMES).find((one) => near(one, scheme));
  const guess = like === undefined ? "" : ` (did you mean ${like}?)`;
  const known = Object.keys(SCHEMES).join(" ");
  throw new InvalidArgumentError(
    `there is no store for a URL that starts with ${shown}${guess}: this version knows ${known}`,
  );
}

/** One letter more, less or other. */
function near(known: string, given: string): boolean {
  let at = 0;
  while (at < known.length && known[at] === given[at]) at += 1;
  const rests = [given.slice(at), given.slice(at + 1)];
  return given !== "" && (rests.includes(known.slice(at + 1)) || rests[1] === known.slice(at));
}

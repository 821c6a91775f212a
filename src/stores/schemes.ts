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

const REDIS_SCHEMES = ["redis", "rediss", "valkey", "valkeys"];

/** The first word of the URLs of each store, without the colon. */
const SCHEMES: Readonly<Record<StoreName, readonly string[]>> = {
  etcd: ["etcd", "etcds"],
  local: ["local"],
  memory: ["memory"],
  mysql: ["mysql", "mariadb"],
  postgres: ["postgres", "postgresql"],
  redis: REDIS_SCHEMES.flatMap((scheme) => [scheme, `${scheme}+cluster`, `${scheme}+sentinel`]),
  redlock: ["redlock", "redlocks"],
  zookeeper: ["zookeeper", "zookeepers"],
};

const names: ReadonlyMap<string, StoreName> = new Map(
  Object.entries(SCHEMES).flatMap(([name, schemes]) =>
    schemes.map((scheme) => [`${scheme}:`, name as StoreName] as const),
  ),
);

/** @throws InvalidArgumentError for a URL that no store has. */
export function storeNameOf(url: string): StoreName {
  const scheme = /^[a-z][a-z0-9+]*:/.exec(url)?.[0] ?? "";
  const name = names.get(scheme);
  if (name !== undefined) return name;
  // Only the scheme is shown: the rest of a URL may hold a password.
  const shown = JSON.stringify(scheme === "" ? url.slice(0, 12) : scheme);
  const known = [...names.keys()];
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

// URL -> store. Only descriptions are imported here; a store loads its client when it is opened.

import { InvalidArgumentError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { localByUrl } from "./local/index.ts";
import { memoryByUrl } from "./memory/index.ts";
import { redisByUrl } from "./redis/index.ts";

const SCHEMES: Readonly<Record<string, (url: string) => Store>> = {
  "local:": localByUrl,
  "memory:": memoryByUrl,
  "redis:": redisByUrl,
  "rediss:": redisByUrl,
};

export function storeByUrl(url: string): Store {
  const scheme = /^[a-z][a-z0-9+]*:/.exec(url)?.[0] ?? "";
  const make = SCHEMES[scheme];
  if (make !== undefined) return make(url);
  // Only the scheme is shown: the rest of a URL may hold a password.
  throw new InvalidArgumentError(
    `there is no store for a URL that starts with ${JSON.stringify(scheme === "" ? url.slice(0, 12) : scheme)}: this version knows ${Object.keys(SCHEMES).join(" and ")}`,
  );
}

// Where the parts meet: the stores by URL, and core.

import type { Locks } from "./core/api.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import type { LocksOptions } from "./core/options.ts";
import type { Store } from "./core/store.ts";
import { createLocksFor, isStore } from "./create-locks-for.ts";
import { storeByUrl } from "./stores/url.ts";

/** Locks over a store: the embedded one by default, one by URL, or one that was made by its factory. */
export function createLocks(store: string | Store = "local:", options: LocksOptions = {}): Locks {
  return createLocksFor(toStore(store), options);
}

function toStore(store: unknown): Store {
  if (typeof store === "string") return storeByUrl(store);
  if (isStore(store)) return store;
  throw new InvalidArgumentError(
    'the first argument of createLocks is neither a URL such as "local:" nor a store such as memory()',
  );
}

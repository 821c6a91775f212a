// Where the parts meet: core, the stores by URL, and this machine's clocks.

import type { Locks } from "./core/api.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { HoldfastLocks } from "./core/locks.ts";
import { type LocksOptions, readLocksOptions } from "./core/options.ts";
import type { Store } from "./core/store.ts";
import { storeByUrl } from "./stores/url.ts";
import { nodeSystem } from "./system/node.ts";

/** Locks over a store: the embedded one by default, one by URL, or one that was made by its factory. */
export function createLocks(store: string | Store = "local:", options: LocksOptions = {}): Locks {
  return new HoldfastLocks(toStore(store), nodeSystem, readLocksOptions(options, nodeSystem.processLabel));
}

function toStore(store: unknown): Store {
  if (typeof store === "string") return storeByUrl(store);
  if (typeof store === "object" && store !== null && typeof (store as Store).open === "function")
    return store as Store;
  throw new InvalidArgumentError(
    'the first argument of createLocks is neither a URL such as "local:" nor a store such as memory()',
  );
}

// Where the parts meet: the stores by URL, and core.

import type { Locks } from "./core/api.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import type { LocksOptions } from "./core/options.ts";
import type { Store } from "./core/store.ts";
import { createLocksFor, isStore } from "./create-locks-for.ts";
import { storeByUrl } from "./stores/registry.ts";

/**
 * Locks over a store: the embedded one without an argument, one by URL, or one that was made by its factory.
 *
 * @throws InvalidArgumentError for an explicit `undefined`, `null` or `""`
 *
 * @example
 * const locks = createLocks("redis://127.0.0.1:6379");
 */
export function createLocks(): Locks;
export function createLocks(store: string | Store, options?: LocksOptions): Locks;
export function createLocks(...args: readonly [store?: unknown, options?: LocksOptions]): Locks {
  const store = toStore(args.length === 0 ? "local:" : args[0]);
  return createLocksFor(store, args[1]);
}

function toStore(store: unknown): Store {
  if (store === undefined || store === null || store === "") {
    const shown = store === "" ? '""' : String(store);
    throw new InvalidArgumentError(
      `the store of createLocks is ${shown}: is a variable such as REDIS_URL not set? ` +
        "holdfast does not use the local store instead, because other machines would not see its locks. " +
        'If you want the local store, say createLocks("local:")',
    );
  }
  if (typeof store === "string") return storeByUrl(store);
  if (isStore(store)) return store;
  throw new InvalidArgumentError(
    'the first argument of createLocks is neither a URL such as "local:" nor a store such as memory()',
  );
}

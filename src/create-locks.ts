// `createLocks` with every store by URL.

import type { Locks } from "./core/api.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import type { LocksOptions } from "./core/options.ts";
import type { Store } from "./core/store.ts";
import { createLocksFor, isStore } from "./create-locks-for.ts";
import { storeByUrl } from "./stores/registry.ts";

/**
 * Makes the `Locks` of a store. `store` is a URL or a store object. Without an argument, it is the embedded
 * local store. holdfast opens the store on the first call.
 *
 * @throws InvalidArgumentError for an explicit `undefined`, `null` or `""`, and for an invalid option.
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
      `store must be a URL or a store object, got ${shown}: is a variable such as REDIS_URL not set? ` +
        "holdfast does not use the local store instead, because other machines would not see its locks. " +
        'To use the local store, call createLocks("local:")',
    );
  }
  if (typeof store === "string") return storeByUrl(store);
  if (isStore(store)) return store;
  throw new InvalidArgumentError(
    `store must be a URL such as "local:" or a store object such as memory(), got ${typeof store}`,
  );
}

// Where the parts meet: core, the stores by URL, and this machine's clocks.

import type { Locks } from "./core/api.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { HoldfastLocks } from "./core/locks.ts";
import { type LocksOptions, readLocksOptions } from "./core/options.ts";
import type { Store } from "./core/store.ts";
import { storeByUrl } from "./stores/url.ts";
import { nodeSystem } from "./system/node.ts";

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
  return new HoldfastLocks(store, nodeSystem, readLocksOptions(args[1] ?? {}, nodeSystem.processLabel));
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
  if (typeof store === "object" && store !== null && typeof (store as Store).open === "function")
    return store as Store;
  throw new InvalidArgumentError(
    'the first argument of createLocks is neither a URL such as "local:" nor a store such as memory()',
  );
}

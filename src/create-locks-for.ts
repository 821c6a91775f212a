// `createLocks` for a store object: core with the clocks and timers of this machine.

import type { Locks } from "./core/api.ts";
import { InvalidArgumentError } from "./core/errors.ts";
import { HoldfastLocks } from "./core/locks.ts";
import { type LocksOptions, readLocksOptions } from "./core/options.ts";
import { processWide } from "./core/util/process-wide.ts";
import type { Store } from "./core/store.ts";
import { nodeSystem } from "./system/node.ts";

/**
 * Core runs once per process: the first copy of the package that is loaded runs the locks of all copies.
 * Scopes, `within` and the deadlock detector therefore work across copies.
 */
const openLocks: (store: Store, options: LocksOptions) => Locks = processWide(
  "core",
  () => (store, options) =>
    new HoldfastLocks(store, nodeSystem, readLocksOptions(options, nodeSystem.processLabel)),
);

/**
 * Makes the `Locks` of a store object. holdfast opens the store on the first call.
 *
 * @example
 * import { createLocks } from "holdfast/core";
 * import { memory } from "holdfast/memory";
 *
 * const locks = createLocks(memory());
 * @throws InvalidArgumentError if `store` is not a store, or an option is invalid.
 */
export function createLocksFor(store: Store, options: LocksOptions = {}): Locks {
  if (!isStore(store))
    throw new InvalidArgumentError(
      `store must be a store object such as memory() or redis({ client }), got ${typeof store}: ` +
        "for a URL use createLocks of the package holdfast",
    );
  return openLocks(store, options);
}

export function isStore(value: unknown): value is Store {
  return typeof value === "object" && value !== null && typeof (value as Store).open === "function";
}

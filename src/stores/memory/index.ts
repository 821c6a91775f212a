// `holdfast/memory`: locks within one process. All `Locks` over one `memory()` object share their locks. All
// `memory:` URLs of one name share one such object per process.

import type { Store } from "../../core/store.ts";
import { processWide } from "../../core/util/process-wide.ts";
import { memoryGuarantees } from "./guarantees.ts";
import { MemoryWorld } from "./store.ts";

export { memoryGuarantees } from "./guarantees.ts";

/**
 * A store for locks within one process, for tests.
 *
 * @example
 * const locks = createLocks(memory());
 */
export function memory(): Store {
  const world = new MemoryWorld();
  return { name: "memory", guarantees: memoryGuarantees, open: (env) => Promise.resolve(world.open(env)) };
}

const named: Map<string, Store> = processWide("memory", () => new Map<string, Store>());

/** `memory:` or `memory:name`. */
export function memoryByUrl(url: string): Store {
  const store = named.get(url) ?? memory();
  named.set(url, store);
  return store;
}

// `holdfast/memory`: locks between the tasks of one process, and the store that tests are written against.
// Every store that is opened from one `memory()` shares its locks; `memory:` URLs share one per process and name.

import type { Store } from "../../core/store.ts";
import { processWide } from "../../core/util/process-wide.ts";
import { memoryGuarantees } from "./guarantees.ts";
import { MemoryWorld } from "./store.ts";

export { memoryGuarantees } from "./guarantees.ts";

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

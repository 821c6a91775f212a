// The memory store as a subject of the conformance suite.

import { memoryGuarantees } from "../../../src/stores/memory/guarantees.ts";
import { MemoryWorld } from "../../../src/stores/memory/store.ts";
import type { Subject } from "../../../src/testing/index.ts";

/** As `memory()` makes it, with a count of its records. */
export function memorySubject(): Subject {
  const world = new MemoryWorld();
  return {
    name: "memory",
    guarantees: memoryGuarantees,
    create: () => ({
      name: "memory",
      guarantees: memoryGuarantees,
      open: (env) => Promise.resolve(world.open(env)),
    }),
    footprint: (namespace) => world.footprint(namespace),
  };
}

// The servers of a run's store, for faults that need some.

import type { FaultyServer } from "../targets/target.ts";
import type { Run } from "./plugin.ts";

/** At least one. Throws where the store has none, so that no run passes because its fault could not strike. */
export function serversOf({ target }: Run): readonly FaultyServer[] {
  if (target.servers.length > 0) return target.servers;
  throw new Error("this store has no server of its own, so no server can be killed or frozen");
}

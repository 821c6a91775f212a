// The calendar of a server is set forward and back by seconds. Leases may end early, so exclusion may break; fences never go
// back (P3). Needs a C compiler.

import type { Random } from "../../sim/world/random.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";
import { serversOf } from "./servers.ts";

const JUMPS_MS = [-3_000, -1_000, -300, 0, 300, 1_000, 3_000] as const;

export const serverClock = (): Plugin => ({
  name: "server-clock",
  everyMs: [300, 1_500],
  survives: "server clock set",
  start(run: Run): Promise<void> {
    if (serversOf(run).every(({ setClock }) => setClock === undefined))
      throw new Error("the clock of this store's servers cannot be set");
    return nothing();
  },
  strike(run: Run, random: Random): Promise<void> {
    const server = random.pick(serversOf(run).filter(({ setClock }) => setClock !== undefined));
    const ms = random.pick(JUMPS_MS);
    run.mark(`clock of server ${server.name} at ${ms} ms`);
    server.setClock?.(ms);
    return nothing();
  },
  stop(run: Run): Promise<void> {
    for (const server of serversOf(run)) server.setClock?.(0);
    return nothing();
  },
});

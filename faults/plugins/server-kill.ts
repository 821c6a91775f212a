// kill -9 of a server of the store, which then comes up again. For stores whose target has servers.

import type { Random } from "../../sim/world/random.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";
import { serversOf } from "./servers.ts";

export function serverKill(): Plugin {
  let under: Promise<void> = nothing();
  return {
    name: "server-kill",
    everyMs: [2_000, 5_000],
    survives: "server restart",
    start(run: Run): Promise<void> {
      serversOf(run);
      return nothing();
    },
    async strike(run: Run, random: Random): Promise<void> {
      await under;
      const server = random.pick(serversOf(run));
      run.mark(`kill server ${server.name}`);
      under = server.kill();
      await under;
    },
    stop: () => under,
  };
}

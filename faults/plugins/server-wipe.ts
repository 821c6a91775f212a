// kill -9 of a server that comes back without its data: what a cache does that keeps nothing on disk. Exclusion is gone with
// the data; the fence must hold (P3, P4).

import type { Random } from "../../sim/world/random.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";
import { serversOf } from "./servers.ts";

export function serverWipe(): Plugin {
  return {
    name: "server-wipe",
    everyMs: [2_000, 5_000],
    survives: "server restart without its data",
    start(run: Run): Promise<void> {
      if (serversOf(run).every(({ wipe }) => wipe === undefined))
        throw new Error("a server of this store cannot lose its data");
      return nothing();
    },
    async strike(run: Run, random: Random): Promise<void> {
      const server = random.pick(serversOf(run).filter(({ wipe }) => wipe !== undefined));
      run.mark(`wipe server ${server.name}`);
      await server.wipe?.();
    },
    stop: nothing,
  };
}

// A server of the store stands still for a while and then goes on as if nothing had been. For targets with servers.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../sim/world/random.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";
import { serversOf } from "./servers.ts";

const SHORTEST_MS = 100;
const LONGEST_MS = 3_000;

export const serverFreeze = (): Plugin => ({
  name: "server-freeze",
  everyMs: [1_500, 4_000],
  start(run: Run): Promise<void> {
    serversOf(run);
    return nothing();
  },
  async strike(run: Run, random: Random): Promise<void> {
    const server = random.pick(serversOf(run));
    const ms = random.between(SHORTEST_MS, LONGEST_MS);
    run.mark(`freeze server ${server.name} for ${ms.toFixed(0)} ms`);
    server.freeze();
    await sleep(ms);
    server.thaw();
  },
  stop: nothing,
});

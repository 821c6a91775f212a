// SIGSTOP, and SIGCONT some time later: a client that sleeps through the end of its lease and wakes up believing in it.

import type { Random } from "../../sim/world/random.ts";
import type { Client, Crew } from "../crew.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

const SHORTEST_MS = 100;
const LONGEST_MS = 3_000;

export function pause(): Plugin {
  const stopped = new Map<Client, NodeJS.Timeout>();
  const resume = (crew: Crew, client: Client): void => {
    clearTimeout(stopped.get(client));
    stopped.delete(client);
    crew.resume(client);
  };
  return {
    name: "pause",
    everyMs: [150, 600],
    start: nothing,
    strike({ crew, mark }: Run, random: Random): Promise<void> {
      const client = crew.pick(random, 2);
      if (client === null) return nothing();
      const ms = random.between(SHORTEST_MS, LONGEST_MS);
      mark(`pause ${client.name} for ${ms.toFixed(0)} ms`);
      crew.stop(client);
      stopped.set(client, setTimeout(resume, ms, crew, client));
      return nothing();
    },
    stop({ crew }: Run): Promise<void> {
      for (const client of [...stopped.keys()]) resume(crew, client);
      return nothing();
    },
  };
}

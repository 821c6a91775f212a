// kill -9 of a client, and a new one in its place. The dead one's keys must be had by others within the store's bound (P10).

import type { Random } from "../../sim/world/random.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

export function kill(): Plugin {
  const starting = new Set<Promise<unknown>>();
  return {
    name: "kill",
    everyMs: [250, 700],
    start: nothing,
    strike({ crew, mark }: Run, random: Random): Promise<void> {
      const client = crew.pick(random, 2);
      if (client === null) return nothing();
      mark(`kill ${client.name}`);
      crew.kill(client);
      const next = crew.add().finally(() => starting.delete(next));
      starting.add(next);
      // A failed start is told by `stop`, not in the middle of a strike.
      next.catch(() => {});
      return nothing();
    },
    async stop(): Promise<void> {
      await Promise.all(starting);
    },
  };
}

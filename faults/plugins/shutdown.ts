// SIGTERM to a client in the middle of its work, as at every rolling deployment, and a new client in its
// place. The client closes its locks with a drain. Nobody gets a key while its holder believes in it, and
// every holder is told before the key goes to another one (P1). The process ends by itself (P16).

import type { Random } from "../../sim/world/random.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

export function shutdown(): Plugin {
  const starting = new Set<Promise<unknown>>();
  return {
    name: "shutdown",
    everyMs: [250, 700],
    start: nothing,
    strike({ crew, mark }: Run, random: Random): Promise<void> {
      const client = crew.pick(random, 2);
      if (client === null) return nothing();
      mark(`shutdown of ${client.name}`);
      const next = Promise.all([crew.shutDown(client), crew.add()]).finally(() => starting.delete(next));
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

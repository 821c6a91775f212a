// A client that keeps its own event loop from turning past its ttl, at a moment when it holds something: neither renewal
// nor the loss alarm can run. One block in three burns the processor, the others sleep: to the event loop they are the same.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../sim/world/random.ts";
import { nowMs } from "../journal.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

const SHORTEST_MS = 200;
const LONGEST_MS = 2_200;

/** A client that holds nothing waits for its next lease before it blocks. */
const NEXT_LEASE_MS = 300;

export function blockedLoop(): Plugin {
  let lastEndMs = 0;
  return {
    name: "blocked-loop",
    everyMs: [200, 700],
    start: nothing,
    strike({ crew, mark }: Run, random: Random): Promise<void> {
      const client = crew.pick(random, 2);
      if (client === null) return nothing();
      const ms = random.between(SHORTEST_MS, LONGEST_MS);
      mark(`block ${client.name} for ${ms.toFixed(0)} ms`);
      crew.block(client, ms, random.chance(0.3));
      lastEndMs = Math.max(lastEndMs, nowMs() + ms);
      return nothing();
    },
    /** A block ends by itself. */
    stop: () => sleep(Math.max(0, lastEndMs - nowMs() + NEXT_LEASE_MS)),
  };
}

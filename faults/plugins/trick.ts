// A fault that only this run's store knows, struck and undone as the others are.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../sim/world/random.ts";
import type { Trick } from "../targets/target.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

export const trick = (name: string, { everyMs, forMs, survives, begin, end }: Trick): Plugin => ({
  name,
  everyMs,
  ...(survives === undefined ? {} : { survives }),
  start: nothing,
  async strike({ mark }: Run, random: Random): Promise<void> {
    const ms = random.between(...forMs);
    mark(`${name} for ${ms.toFixed(0)} ms`);
    await begin();
    try {
      await sleep(ms);
    } finally {
      await end();
    }
  },
  stop: nothing,
});

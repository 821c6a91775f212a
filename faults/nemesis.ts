// Strikes with one fault again and again until the time is over. The moments and the victims come from the seed; what the
// machine makes of them does not, so a run can be repeated only in its plan.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../sim/world/random.ts";
import { nowMs } from "./journal.ts";
import type { Plugin, Run } from "./plugins/plugin.ts";

export async function torment(plugin: Plugin, run: Run, random: Random, seconds: number): Promise<void> {
  const endMs = nowMs() + seconds * 1_000;
  for (;;) {
    const waitMs = random.between(...plugin.everyMs);
    if (nowMs() + waitMs >= endMs) break;
    await sleep(waitMs);
    await plugin.strike(run, random);
  }
  await sleep(Math.max(0, endMs - nowMs()));
  await plugin.stop(run);
}

// Strikes with one fault again and again until the time is over. The moments and the victims come from the seed; what the
// machine makes of them does not, so a run can be repeated only in its plan.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../sim/world/random.ts";
import { nowMs } from "./journal.ts";
import type { Plugin, Run } from "./plugins/plugin.ts";

/** On a busy machine a strike may find nobody to strike for a while: a run waits so much longer for those that it must have had. */
const OWED_MS = 20_000;

export async function torment(plugin: Plugin, run: Run, random: Random, seconds: number): Promise<void> {
  const endMs = nowMs() + seconds * 1_000;
  const over = (atMs: number): boolean =>
    atMs >= endMs && (plugin.owes?.() !== true || atMs >= endMs + OWED_MS);
  for (;;) {
    const waitMs = random.between(...plugin.everyMs);
    if (over(nowMs() + waitMs)) break;
    await sleep(waitMs);
    await plugin.strike(run, random);
  }
  await sleep(Math.max(0, endMs - nowMs()));
  await plugin.stop(run);
}

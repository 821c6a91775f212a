// The calendar of a server is set forward and back by seconds. Leases may end early, so exclusion may break; fences never go
// back (P3).

import type { Random } from "../../sim/world/random.ts";
import type { FaultyClock } from "../targets/target.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

const JUMPS_MS = [-3_000, -1_000, -300, 0, 300, 1_000, 3_000] as const;
const PROOF_MS = 3_000;
/** What asking may take on a busy machine, less than the jump. */
const BLUR_MS = 1_500;

export const serverClock = (): Plugin => ({
  name: "server-clock",
  everyMs: [300, 1_500],
  survives: "server clock set",
  async start(run: Run): Promise<void> {
    for (const clock of clocksOf(run)) await proveClock(clock);
  },
  strike(run: Run, random: Random): Promise<void> {
    const clock = random.pick(clocksOf(run));
    const ms = random.pick(JUMPS_MS);
    run.mark(`clock of server ${clock.name} at ${ms} ms`);
    clock.set(ms);
    return nothing();
  },
  stop(run: Run): Promise<void> {
    for (const clock of clocksOf(run)) clock.set(0);
    return nothing();
  },
});

export function clocksOf({ target }: Run): readonly FaultyClock[] {
  if (target.clocks !== undefined && target.clocks.length > 0) return target.clocks;
  throw new Error("the clock of this store's servers cannot be set");
}

/** A server that does not ask the library would pass every run. */
export async function proveClock(clock: FaultyClock): Promise<void> {
  for (const ms of [PROOF_MS, -PROOF_MS, 0]) {
    clock.set(ms);
    const offMs = (await clock.nowMs()) - Date.now();
    if (Math.abs(offMs - ms) > BLUR_MS)
      throw new Error(`the clock of ${clock.name} was set to ${ms} ms and is off by ${offMs.toFixed(0)} ms`);
  }
}

// The clocks of the servers run too fast or too slow by as much as chrony slews a clock. With the default
// grace no holder believes longer than its store keeps the key (P2).

import type { Random } from "../../sim/world/random.ts";
import { CHRONY_SLEW, Slew } from "../clock-shim.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";
import { clocksOf, proveClock } from "./server-clock.ts";

const RATES = [-CHRONY_SLEW, CHRONY_SLEW] as const;

export const serverSlew = (): Plugin => {
  const rates = new Map<string, number>();
  const slews: Slew[] = [];
  return {
    name: "server-slew",
    everyMs: [1_000, 5_000],
    async start(run: Run): Promise<void> {
      for (const clock of clocksOf(run)) await proveClock(clock);
      for (const clock of clocksOf(run))
        slews.push(
          new Slew(
            (ms) => clock.set(ms),
            () => rates.get(clock.name) ?? 0,
          ),
        );
    },
    strike(run: Run, random: Random): Promise<void> {
      const { name } = random.pick(clocksOf(run));
      const rate = random.pick(RATES);
      run.mark(`clock of server ${name} slewed by ${(rate * 100).toFixed(1)} %`);
      rates.set(name, rate);
      return nothing();
    },
    /** The clocks stay where they are: setting them back would be another fault. */
    stop(): Promise<void> {
      rates.clear();
      return nothing();
    },
    end(): Promise<void> {
      for (const slew of slews) slew.stop();
      return nothing();
    },
  };
};

// The calendar of a client jumps back and forth by up to hours. Leases must not notice: certain time is monotonic (P2).

import { join } from "node:path";
import type { Random } from "../../sim/world/random.ts";
import { ClockShim, Offset } from "../clock-shim.ts";
import { nothing, type Plugin, type Run } from "./plugin.ts";

const JUMPS_MS = [-86_400_000, -3_600_000, -5_000, -700, 0, 700, 5_000, 3_600_000, 86_400_000] as const;

/** What a strike at this client is called, up to how far. */
export function clockOf(client: string): string {
  return `wall clock of ${client} `;
}

export function clientWallClock(): Plugin {
  const offsets = new Map<string, Offset>();
  return {
    name: "client-wall-clock",
    everyMs: [50, 250],
    setsClocks: true,
    async start({ crew, folder }: Run): Promise<void> {
      const shim = await ClockShim.build();
      await shim.prove(join(folder, "proof.offset"));
      crew.environment = (name) => {
        const offset = new Offset(join(folder, `${name}.offset`));
        offsets.set(name, offset);
        return shim.environment(offset);
      };
    },
    strike({ crew, mark }: Run, random: Random): Promise<void> {
      const client = crew.pick(random, 0);
      if (client === null) return nothing();
      const ms = random.pick(JUMPS_MS) + Math.round(random.between(-100, 100));
      mark(`${clockOf(client.name)}at ${ms} ms`);
      offsets.get(client.name)?.set(ms);
      return nothing();
    },
    stop(): Promise<void> {
      for (const offset of offsets.values()) offset.set(0);
      return nothing();
    },
  };
}

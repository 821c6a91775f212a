// The calendar of a server that a run sets: for such a run the server is started with a library of ours in front of its own.
// Elsewhere nothing is loaded, and the clock is only there to be listed.

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { askRedis } from "../../scripts/servers/redis-node.ts";
import { ClockShim, Offset } from "../clock-shim.ts";
import type { FaultyClock } from "./target.ts";

/** Faults that move the calendar of a server. */
export const CLOCK_FAULTS: readonly string[] = ["server-clock", "server-slew"];

export interface ServerClock {
  /** What the server has to be started with. */
  readonly env: Readonly<Record<string, string>>;
  set(offsetMs: number): void;
}

/** `path`: a file that whoever runs the server can reach. */
export async function serverClock(fault: string, path: string): Promise<ServerClock> {
  if (!CLOCK_FAULTS.includes(fault)) return { env: {}, set: () => {} };
  const offset = new Offset(path);
  chmodSync(path, 0o644);
  const env = (await ClockShim.build()).environment(offset) as Record<string, string>;
  return { env, set: (ms) => offset.set(ms) };
}

/** One for each of so many servers. */
export function serverClocks(fault: string, folder: string, count: number): Promise<ServerClock[]> {
  return Promise.all(
    Array.from({ length: count }, (_, at) => serverClock(fault, join(folder, `${at + 1}.offset`))),
  );
}

export function redisClock(name: string, port: number, clock: ServerClock): FaultyClock {
  return {
    name,
    set: (ms) => clock.set(ms),
    async nowMs() {
      const [seconds = 0, us = 0] = [...(await askRedis(port, "TIME")).matchAll(/\r\n(\d+)/g)].map(
        ([, text]) => Number(text),
      );
      return seconds * 1_000 + us / 1_000;
    },
  };
}

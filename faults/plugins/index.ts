// All faults, by the name that the command takes.

import { blockedLoop } from "./blocked-loop.ts";
import { clientWallClock } from "./client-wall-clock.ts";
import { kill } from "./kill.ts";
import { none } from "./none.ts";
import { pause } from "./pause.ts";
import type { Plugin } from "./plugin.ts";
import { serverFreeze } from "./server-freeze.ts";
import { serverKill } from "./server-kill.ts";

/** Each run gets a plug-in of its own: they remember what they have done. */
export const plugins: Readonly<Record<string, () => Plugin>> = {
  none,
  kill,
  pause,
  "blocked-loop": blockedLoop,
  "client-wall-clock": clientWallClock,
  "server-kill": serverKill,
  "server-freeze": serverFreeze,
};

// All faults, by the name that the command takes.

import { blockedLoop } from "./blocked-loop.ts";
import { clientWallClock } from "./client-wall-clock.ts";
import { networkFaults, pushFaults, sessionFaults } from "./network.ts";
import { kill } from "./kill.ts";
import { none } from "./none.ts";
import { pause } from "./pause.ts";
import type { Plugin } from "./plugin.ts";
import { serverClock } from "./server-clock.ts";
import { serverFreeze } from "./server-freeze.ts";
import { serverKill } from "./server-kill.ts";
import { serverWipe } from "./server-wipe.ts";
import { trick } from "./trick.ts";
import type { Target } from "../targets/target.ts";

type Plugins = Readonly<Record<string, () => Plugin>>;

const clientFaults: Plugins = {
  none,
  kill,
  pause,
  "blocked-loop": blockedLoop,
  "client-wall-clock": clientWallClock,
};
const serverFaults: Plugins = { "server-kill": serverKill, "server-freeze": serverFreeze };

/** Each run gets a plug-in of its own: they remember what they have done. */
const plugins: Plugins = {
  ...clientFaults,
  ...serverFaults,
  "server-wipe": serverWipe,
  "server-clock": serverClock,
  ...networkFaults,
  ...pushFaults,
  ...sessionFaults,
};

/** Whatever can happen to that store. */
export function faultsOf({
  servers,
  through,
  listens,
  guarantees,
  tricks = {},
  only,
}: Target): readonly string[] {
  return (
    only ?? [
      ...Object.keys(clientFaults),
      ...(servers.length > 0 ? Object.keys(serverFaults) : []),
      ...(servers.some(({ wipe }) => wipe !== undefined) ? ["server-wipe"] : []),
      ...(servers.some(({ clock }) => clock === true) ? ["server-clock"] : []),
      ...(through === undefined ? [] : Object.keys(networkFaults)),
      ...(through === undefined || listens === undefined ? [] : Object.keys(pushFaults)),
      ...(through === undefined || guarantees.ends !== "session" ? [] : Object.keys(sessionFaults)),
      ...Object.keys(tricks),
    ]
  );
}

/** One of those, or one of the target's own. */
export function pluginFor(fault: string, target: Target): Plugin {
  const own = target.tricks?.[fault];
  const plugin = own === undefined ? plugins[fault]?.() : trick(fault, own);
  if (plugin !== undefined) return plugin;
  throw new Error(`there is no fault ${fault} of this store: there are ${faultsOf(target).join(", ")}`);
}

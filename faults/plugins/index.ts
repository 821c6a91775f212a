// All faults, by the name that the command takes.

import { blockedLoop } from "./blocked-loop.ts";
import { clientWallClock } from "./client-wall-clock.ts";
import { networkFaults, pushFaults, sessionFaults } from "./network.ts";
import { kill } from "./kill.ts";
import { type Mix, mixed, shuffled } from "./mixed.ts";
import { none } from "./none.ts";
import { pause } from "./pause.ts";
import type { Plugin } from "./plugin.ts";
import { serverClock } from "./server-clock.ts";
import { serverSlew } from "./server-slew.ts";
import { serverFreeze } from "./server-freeze.ts";
import { serverKill } from "./server-kill.ts";
import { shutdown } from "./shutdown.ts";
import { serverWipe } from "./server-wipe.ts";
import { trick } from "./trick.ts";
import { Random } from "../../sim/world/random.ts";
import type { Target } from "../targets/target.ts";
import { expected } from "../verdict.ts";

type Plugins = Readonly<Record<string, () => Plugin>>;

const clientFaults: Plugins = {
  none,
  kill,
  pause,
  shutdown,
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
  "server-slew": serverSlew,
  ...networkFaults,
  ...pushFaults,
  ...sessionFaults,
};

export const MIXED = "mixed";
/** What a mix has on every store that can have it. A store whose servers are not ours to harm one by one freezes its primary. */
const ALWAYS = ["kill", "pause", "shutdown", "server-freeze", "primary-freeze", "swallowed-replies"];
/** Not in a mix: its servers are set up for it alone, or it takes longer than a mix has for one fault. */
const ALONE = [
  "client-wall-clock",
  "server-clock",
  "server-slew",
  "full-disk",
  "no-space",
  "eviction",
  "lock-wait",
];
const ALSO = 2;

/** What else strikes must not loosen what is held against the store. */
function mixOf(target: Target, seed: number): Mix {
  const possible = faultsOf(target).filter((name) => name !== "none" && !ALONE.includes(name));
  const always = possible.filter((name) => ALWAYS.includes(name)).map((name) => single(name, target));
  const isSafe = (part: Plugin): boolean => expected(part, target) === "safe";
  const others = possible.filter((name) => !ALWAYS.includes(name)).map((name) => single(name, target));
  const fit = always.every(isSafe) ? others.filter(isSafe) : others;
  const parts = [...always, ...shuffled(fit, new Random(seed).fork(MIXED)).slice(0, ALSO)];
  return { safe: parts.filter(isSafe), fenced: parts.filter((part) => !isSafe(part)) };
}

/** Whatever can happen to that store. */
export function faultsOf({
  servers,
  through,
  listens,
  guarantees,
  clocks = [],
  tricks = {},
  only,
}: Target): readonly string[] {
  return (
    only ?? [
      ...Object.keys(clientFaults),
      ...(servers.length > 0 ? Object.keys(serverFaults) : []),
      ...(servers.some(({ wipe }) => wipe !== undefined) ? ["server-wipe"] : []),
      ...(clocks.length > 0 ? ["server-clock", "server-slew"] : []),
      ...(through === undefined ? [] : Object.keys(networkFaults)),
      ...(through === undefined || listens === undefined ? [] : Object.keys(pushFaults)),
      ...(through === undefined || guarantees.ends !== "session" ? [] : Object.keys(sessionFaults)),
      ...Object.keys(tricks),
    ]
  );
}

/** One of those, one of the target's own, or several in turn, of which the seed chooses some. */
export function pluginFor(fault: string, target: Target, seed: number): Plugin {
  return fault === MIXED ? mixed(mixOf(target, seed)) : single(fault, target);
}

function single(fault: string, target: Target): Plugin {
  const own = target.tricks?.[fault];
  const plugin = own === undefined ? plugins[fault]?.() : trick(fault, own);
  if (plugin !== undefined) return plugin;
  throw new Error(
    `there is no fault ${fault} of this store: there are ${[...faultsOf(target), MIXED].join(", ")}`,
  );
}

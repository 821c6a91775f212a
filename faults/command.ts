// The command line of `npm run faults`: what can be asked for, and what is said to who asks for something else.

import { parseArgs } from "node:util";
import { wholeNumber } from "../scripts/usage.mjs";
import { toMs } from "../src/core/duration.ts";
import { MIXED } from "./plugins/index.ts";
import { type Cheat, CHEATS, DEFAULTS, type RunSettings } from "./settings.ts";
import { targetNames } from "./targets/index.ts";

const DEFAULT_RATE = 1_000;

export const USAGE = `npm run faults -- [--store NAME] [--fault NAME] [options]

  --store NAME      which store: ${targetNames.join(", ")}
                    (default ${DEFAULTS.store}; with --all, --missing and --list every one)
  --fault NAME      which fault (default ${DEFAULTS.fault}); ${MIXED}: several in turn, of which the seed chooses some
  --seconds N       how long the fault strikes (default ${DEFAULTS.seconds})
  --seed N          repeats a plan (default: any)
  --clients N       client processes (default ${DEFAULTS.clients})
  --tasks N         tasks in each (default ${DEFAULTS.tasks})
  --grace DURATION  \`grace\` of the clients, such as 3s (default: that of createLocks)
  --all             every fault that can happen to the store
  --missing         the same, those without a result only
  --outage          freezes the servers under load, then keeps them down, and measures what that costs (P20)
  --half-open       silences the connections that exist, and measures the time to the next grant (P13)
  --rate N          with --outage: tryAcquire per second (default ${DEFAULT_RATE})
  --list            which faults there are for each store, and which have a result
  --report          makes docs/appendix/evidence.md of the results
  --no-result       keeps no result. A run with --grace or --cheat never does, nor one of ${MIXED}
  --cheat NAMES     plants defects that must be found: ${CHEATS.join(", ")}
  --help            this

Exits with 0 when every promise was kept, 1 when one was not or a run could not be made, 64 when the command was wrong.`;

export interface Command {
  readonly do: "list" | "report" | "outage" | "half-open" | "all" | "missing" | "one";
  /** Null where none was named. */
  readonly store: string | null;
  readonly fault: string;
  readonly settings: Omit<RunSettings, "store" | "fault">;
  /** tryAcquire per second in an outage. */
  readonly perSecond: number;
  readonly keepsResult: boolean;
}

/** Throws where the command line is wrong. */
export function parse(args: readonly string[]): Command {
  const { values } = parseArgs({
    args: [...args],
    options: {
      store: { type: "string" },
      fault: { type: "string", default: DEFAULTS.fault },
      seconds: { type: "string", default: String(DEFAULTS.seconds) },
      seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
      clients: { type: "string", default: String(DEFAULTS.clients) },
      tasks: { type: "string", default: String(DEFAULTS.tasks) },
      grace: { type: "string" },
      cheat: { type: "string" },
      outage: { type: "boolean", default: false },
      "half-open": { type: "boolean", default: false },
      rate: { type: "string", default: String(DEFAULT_RATE) },
      all: { type: "boolean", default: false },
      missing: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      report: { type: "boolean", default: false },
      "no-result": { type: "boolean", default: false },
    },
  });
  const { store, fault, grace } = values;
  if (store !== undefined && !targetNames.includes(store)) throw new Error(`there is no store ${store}`);
  const cheats = (values.cheat?.split(",") ?? []).map(cheatNamed);
  const kinds = ["list", "report", "outage", "half-open", "missing", "all"] as const;
  return {
    do: kinds.find((kind) => values[kind]) ?? "one",
    store: store ?? null,
    fault,
    settings: {
      seed: wholeNumber("--seed", values.seed),
      seconds: wholeNumber("--seconds", values.seconds),
      clients: wholeNumber("--clients", values.clients),
      tasks: wholeNumber("--tasks", values.tasks),
      cheats,
      graceMs: grace === undefined ? undefined : toMs("--grace", grace),
    },
    perSecond: wholeNumber("--rate", values.rate),
    keepsResult: !values["no-result"] && cheats.length === 0 && grace === undefined && fault !== MIXED,
  };
}

function cheatNamed(name: string): Cheat {
  const cheat = CHEATS.find((one) => one === name);
  if (cheat !== undefined) return cheat;
  throw new Error(`there is no cheat ${name}`);
}

// What every store may declare, and which cases it therefore need not pass. The suite selects by what a store declares;
// this table is where a change of that selection has to be written down, so that no store can choose its own tests.

import type { Guarantees } from "../../src/core/store.ts";

/** The part of the guarantees that selects cases or sets their bounds. */
export type Pinned = Pick<
  Guarantees,
  | "fence"
  | "ends"
  | "freeAfterCrashMs"
  | "order"
  | "wakes"
  | "pollMs"
  | "claimMs"
  | "clock"
  | "scope"
  | "kinds"
>;

export interface PinnedStore {
  readonly guarantees: Pinned;
  /** How many cases it runs, per level. */
  readonly runs: { readonly contract: number; readonly api: number; readonly process: number };
  /** The cases that it does not run, by id, each with the reason that its guarantees give. */
  readonly absent: Readonly<Record<string, string>>;
}

const EVERY_KIND = ["exclusive", "shared", "semaphore", "multi", "keep"] as const;
const ONE_PROCESS = "scope is one process";

export const pinned: Readonly<Record<string, PinnedStore>> = {
  memory: {
    guarantees: {
      fence: "G3",
      ends: "lease",
      freeAfterCrashMs: "lease",
      order: "fifo",
      wakes: "push",
      pollMs: 250,
      claimMs: 1_000,
      clock: "machine",
      scope: "process",
      kinds: EVERY_KIND,
    },
    runs: { contract: 78, api: 27, process: 0 },
    absent: {
      "fences/server-restart": `${ONE_PROCESS}: there is no server`,
      "api/unsupported": "it declares every kind",
      "process/meet": ONE_PROCESS,
      "process/killed-holder": ONE_PROCESS,
      "process/killed-unnoticed": ONE_PROCESS,
      "process/killed-several": ONE_PROCESS,
      "process/killed-waiter": ONE_PROCESS,
      "process/killed-once": ONE_PROCESS,
      "process/closed": ONE_PROCESS,
      "process/stopped-holder": ONE_PROCESS,
      "process/stopped-briefly": ONE_PROCESS,
      "process/stopped-waiter": ONE_PROCESS,
      "process/counter": ONE_PROCESS,
      "process/counter-killed": ONE_PROCESS,
    },
  },
  local: {
    guarantees: {
      fence: "G3",
      ends: "lease",
      freeAfterCrashMs: 1_000,
      order: "fifo",
      wakes: "push",
      pollMs: 250,
      claimMs: 1_000,
      clock: "machine",
      scope: "machine",
      kinds: EVERY_KIND,
    },
    runs: { contract: 78, api: 27, process: 12 },
    absent: {
      "fences/server-restart": "scope is one machine: there is no server",
      "api/unsupported": "it declares every kind",
    },
  },
  redis: {
    guarantees: {
      fence: "G1",
      ends: "lease",
      freeAfterCrashMs: "lease",
      order: "fifo",
      wakes: "push",
      pollMs: 250,
      claimMs: 1_000,
      clock: "store",
      scope: "network",
      kinds: EVERY_KIND,
    },
    runs: { contract: 78, api: 27, process: 12 },
    absent: {
      "fences/wall-clock-back": "the clock is the store's",
      "api/unsupported": "it declares every kind",
    },
  },
};

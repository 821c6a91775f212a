// The conditions under which a case applies, each with its reason in words. Nothing but the guarantees is looked at.

import type { Kind } from "../core/store.ts";
import type { Need } from "./case.ts";

const ALL_KINDS: readonly Kind[] = ["exclusive", "shared", "semaphore", "multi", "keep"];

export function kind(name: Kind): Need {
  return {
    met: (guarantees) => guarantees.kinds.includes(name),
    why: (guarantees) => `kinds are ${guarantees.kinds.join(", ")}: not ${name}`,
  };
}

export const fifo: Need = {
  met: (guarantees) => guarantees.order === "fifo",
  why: (guarantees) => `order is ${guarantees.order}`,
};

export const pushes: Need = {
  met: (guarantees) => guarantees.wakes === "push",
  why: (guarantees) => `wakes by ${guarantees.wakes}`,
};

/** A grant ends by itself although the process that has it goes on. */
export const leases: Need = {
  met: (guarantees) => guarantees.ends === "lease",
  why: (guarantees) => `grants end with the ${guarantees.ends}`,
};

/** The store ends a grant by itself, or says how long one may be believed in, so that core ends it in time. */
export const windows: Need = {
  met: (guarantees) => guarantees.ends === "lease" || guarantees.longestMs !== undefined,
  why: (guarantees) => `grants end with the ${guarantees.ends}`,
};

/** Time can be moved by hand. */
export const machineClock: Need = {
  met: (guarantees) => guarantees.clock === "machine",
  why: (guarantees) => `the clock is the ${guarantees.clock}'s`,
};

export const severalProcesses: Need = {
  met: (guarantees) => guarantees.scope !== "process",
  why: (guarantees) => `scope is one ${guarantees.scope}`,
};

export const hasServer: Need = {
  met: (guarantees) => guarantees.scope === "network",
  why: (guarantees) => `scope is one ${guarantees.scope}: there is no server`,
};

export const lacksAKind: Need = {
  met: (guarantees) => ALL_KINDS.some((name) => !guarantees.kinds.includes(name)),
  why: () => "it declares every kind",
};

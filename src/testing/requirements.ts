// The conditions under which a case applies to a store. They depend on its guarantees only.

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

/** A grant ends with its ttl, also while its process is alive. */
export const leases: Need = {
  met: (guarantees) => guarantees.ends === "lease",
  why: (guarantees) => `grants end with the ${guarantees.ends}`,
};

/** The validity of a grant is limited, by its ttl or by `longestMs`. */
export const windows: Need = {
  met: (guarantees) => guarantees.ends === "lease" || guarantees.longestMs !== undefined,
  why: (guarantees) => `grants end with the ${guarantees.ends}`,
};

/** The case can run in virtual time. */
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

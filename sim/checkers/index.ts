// All checkers, by the name that mutants and reports use.

import type { Checker, History, Violation } from "../history.ts";
import { deadlocks } from "./deadlocks.ts";
import { exclusion } from "./exclusion.ts";
import { fences } from "./fences.ts";
import { leftovers } from "./leftovers.ts";
import { linearizability } from "./linearizability.ts";
import { recovery, wakeUp } from "./liveness.ts";
import { order } from "./order.ts";
import { allOrNone, bounds, oneOutcome } from "./outcomes.ts";
import { noRevival, ownerOnly } from "./ownership.ts";
import { guardedRegister } from "./register.ts";
import { closeInTime, notified } from "./shutdown.ts";
import { fullTtl, lossInTime, windowHonesty } from "./window.ts";

export const checkers: Readonly<Record<string, Checker>> = {
  exclusion,
  linearizability,
  notified,
  closeInTime,
  windowHonesty,
  fullTtl,
  fences,
  guardedRegister,
  ownerOnly,
  noRevival,
  lossInTime,
  oneOutcome,
  allOrNone,
  recovery,
  wakeUp,
  order,
  bounds,
  deadlocks,
  leftovers,
};

export interface NamedViolation extends Violation {
  readonly checker: string;
}

export function check(history: History): NamedViolation[] {
  return Object.entries(checkers).flatMap(([checker, run]) =>
    run(history).map((one) => ({ checker, ...one })),
  );
}

// All cases, in the order in which they are run: the raw contract first, so that the plainest failure is
// seen first.

import type { Case } from "../case.ts";
import { acquireCases } from "./api-acquire.ts";
import { actorCases } from "./api-actors.ts";
import { kindCases } from "./api-kinds.ts";
import { leaseCases } from "./api-lease.ts";
import { manyCases } from "./api-many.ts";
import { attemptCases } from "./attempts.ts";
import { deadlockCases, deadlockProcessCases } from "./deadlocks.ts";
import { electionCases, electionProcessCases } from "./elections.ts";
import { endCases } from "./ends.ts";
import { exclusionCases } from "./exclusion.ts";
import { fenceCases } from "./fences.ts";
import { hygieneCases } from "./hygiene.ts";
import { keepCases } from "./keep.ts";
import { nameCases } from "./names.ts";
import { orderCases } from "./order.ts";
import { counterCases } from "./process-counter.ts";
import { crashCases } from "./process-crash.ts";
import { pauseCases } from "./process-pause.ts";
import { reportCases } from "./reports.ts";
import { revokeCases } from "./revoke.ts";
import { semaphoreCases } from "./semaphores.ts";
import { severalCases } from "./several.ts";
import { sharedCases } from "./shared.ts";
import { shutdownCases, shutdownProcessCases } from "./shutdown.ts";
import { wakeCases } from "./wakes.ts";

/** All cases of the conformance suite. */
export const allCases: readonly Case[] = [
  ...exclusionCases,
  ...endCases,
  ...attemptCases,
  ...orderCases,
  ...wakeCases,
  ...fenceCases,
  ...sharedCases,
  ...semaphoreCases,
  ...severalCases,
  ...keepCases,
  ...revokeCases,
  ...reportCases,
  ...nameCases,
  ...hygieneCases,
  ...acquireCases,
  ...leaseCases,
  ...kindCases,
  ...manyCases,
  ...shutdownCases,
  ...actorCases,
  ...deadlockCases,
  ...electionCases,
  ...crashCases,
  ...shutdownProcessCases,
  ...pauseCases,
  ...counterCases,
  ...deadlockProcessCases,
  ...electionProcessCases,
];

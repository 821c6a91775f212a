// The simulated Redis as the subject of the conformance suite.

import { RedisTwins, twinGuarantees } from "../../sim/servers/redis-store.ts";
import { allCases, type Case, planFor, type Subject } from "../../src/testing/index.ts";

const twins = new RedisTwins();

export const twin: Subject = {
  name: "simulated redis",
  guarantees: twinGuarantees,
  create: () => twins.store(),
  footprint: (namespace) => twins.footprint(namespace),
};

export const plan = planFor(twinGuarantees);
export const cases: readonly Case[] = allCases.filter(({ id }) => plan.run.includes(id));

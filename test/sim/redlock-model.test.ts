// The redlock algorithm, explored: whatever arrives late, in another order or never, and whenever a node
// drops a holder. And the mistakes that the exploration must find, each of which somebody has made. Larger
// spaces are in redlock-model.long.test.ts.

import { describe, expect, it } from "vitest";
import { explore, wander } from "../../sim/models/explore.ts";
import { redlockModel, type RedlockModelSettings } from "../../sim/models/redlock.ts";
import { QUICK_MISTAKES, SMALL, testAllStates, testMistakes } from "./redlock-states.ts";

testAllStates([
  ["honest clocks, proposals that are repeated (P1, P3)", { proposals: 2, time: "honest" }],
  ["honest clocks, a node that forgets (P1, P3)", { forgetting: true, time: "honest" }],
]);

describe("as many states as time allows", () => {
  it.each<[string, Partial<RedlockModelSettings>]>([
    ["three attempts (P3)", { attempts: 3, proposals: 2, renewals: true }],
    ["five nodes (P3)", { nodes: 5, proposals: 2, renewals: true, forgetting: true }],
    ["five nodes, three attempts, honest clocks (P1, P3)", { nodes: 5, attempts: 3, time: "honest" }],
  ])("%s", (_name, more) => {
    const model = redlockModel({ ...SMALL, ...more });
    expect(explore(model, 20_000)).toMatchObject({ broken: null, states: 20_000 });
    expect(wander(model, 500, 1)).toMatchObject({ broken: null });
  });
});

testMistakes(QUICK_MISTAKES);

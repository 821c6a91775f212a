// Larger state spaces of the redlock model, and the mistakes that are found in them only after a while. The
// largest space takes gigabytes: sim/models/largest.ts.

import { describe, expect, it } from "vitest";
import { explore, wander } from "../../sim/models/explore.ts";
import { redlockModel, type RedlockModelSettings } from "../../sim/models/redlock.ts";
import { SLOW_MISTAKES, SMALL, testAllStates, testMistakes } from "./redlock-states.ts";

testAllStates([
  ["proposals that are repeated, holders that are dropped at any moment (P3)", { proposals: 2 }],
  ["renewals, holders that are dropped at any moment (P3, P6)", { renewals: true }],
  [
    "honest clocks but for one node's, which jumps and is seen to (P1, P3)",
    { jumping: true, time: "honest" },
  ],
  ["a node that forgets, sits out and is taken in again (P3)", { forgetting: true }],
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

testMistakes(SLOW_MISTAKES);

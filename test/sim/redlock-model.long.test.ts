// Larger state spaces of the redlock model, and the mistakes that are found in them only after a while. The
// largest space takes gigabytes: sim/models/largest.ts.

import { SLOW_MISTAKES, testAllStates, testMistakes } from "./redlock-states.ts";

testAllStates([
  ["proposals that are repeated, holders that are dropped at any moment (P3)", { proposals: 2 }],
  ["renewals, holders that are dropped at any moment (P3, P6)", { renewals: true }],
  [
    "honest clocks but for one node's, which jumps and is seen to (P1, P3)",
    { jumping: true, time: "honest" },
  ],
  ["a node that forgets, sits out and is taken in again (P3)", { forgetting: true }],
]);

testMistakes(SLOW_MISTAKES);

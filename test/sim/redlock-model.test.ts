// The redlock algorithm, explored: whatever arrives late, in another order or never, and whenever a node
// drops a holder. And the mistakes that the exploration must find, each of which somebody has made. Larger
// spaces are in redlock-model.long.test.ts.

import { QUICK_MISTAKES, testAllStates, testMistakes } from "./redlock-states.ts";

testAllStates([
  ["honest clocks, proposals that are repeated (P1, P3)", { proposals: 2, time: "honest" }],
  ["honest clocks, a node that forgets (P1, P3)", { forgetting: true, time: "honest" }],
]);

testMistakes(QUICK_MISTAKES);

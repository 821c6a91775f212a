// More simulated worlds than `npm test` has time for.

import { testWorlds } from "./worlds.ts";

testWorlds([
  [1_200, "memory"],
  [100, "redis"],
  [40, "redlock"],
]);

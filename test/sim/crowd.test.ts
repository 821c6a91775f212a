// Many waiters for one key, in virtual time (P10, P12, P21). 1,000 of them wait in crowd.long.test.ts.

import { testCrowd } from "./worlds.ts";

testCrowd(100);

// 1,000 waiters for one key, in virtual time (P10, P12, P21).

import { testCrowd } from "./worlds.ts";

testCrowd(1_000);

// The largest state space of the redlock model that was seen whole: three nodes, two attempts, repeated
// proposals and renewals together. It takes minutes and gigabytes, so no test runs it: node
// --max-old-space-size=12000 --import tsx sim/models/largest.ts

import { explore } from "./explore.ts";
import { redlockModel } from "./redlock.ts";

const LIMIT = 10_000_000;

const settings = { nodes: 3, attempts: 2, time: "none", proposals: 2 } as const;
const model = redlockModel({ ...settings, renewals: true, forgetting: false });
const { states, complete, broken, path } = explore(model, LIMIT);
console.log(
  `${states} states, ${complete ? "all of them" : "not all of them"}: ${broken ?? "nothing is broken"}`,
);
for (const step of path) console.log(`  ${String(step)}`);
process.exitCode = complete && broken === null ? 0 : 1;

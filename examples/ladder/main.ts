// `node --import tsx examples/ladder/main.ts`: climbs from SETNX to fenced leases on real servers. Every rung breaks before your eyes
// and is cured by the next. Needs Redis, which is fetched when it is not there.

import { rungs } from "./rungs.ts";
import { withServers } from "./servers.ts";

await withServers(async (servers) => {
  for (const [at, rung] of rungs.entries()) {
    const { naive, holdfast } = await rung.climb(servers);
    console.log(`\n${at + 1}. ${rung.name}: ${rung.pitfall}`);
    console.log(`   naive     ${naive.broke ? "BROKE" : "held"}: ${naive.saw}`);
    console.log(`   holdfast  ${holdfast.held ? "held" : "BROKE"}: ${holdfast.saw}`);
    console.log(`   cure: ${rung.cure} (${rung.proof})`);
    if (!naive.broke || !holdfast.held) process.exitCode = 1;
  }
});

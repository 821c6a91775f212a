// A short outage under load on Redis: frozen, then refused (P20). The long ones are made by
// `npm run faults -- --outage --store NAME --seconds 600`.

import { expect, it } from "vitest";
import { MOST, outage } from "../../faults/outage.ts";

it("an outage of Redis under load leaves no memory behind, and ends without a burst (P20)", async () => {
  const figures = await outage({ store: "redis", seconds: 3, perSecond: 1_000 });
  expect(figures.map(({ phase }) => phase)).toEqual(["frozen", "refused"]);
  for (const { phase, sent, granted, failed, heapGrowthMb, writesInFirstSecond } of figures) {
    expect(failed, phase).toBe(sent);
    expect(granted, phase).toBe(0);
    expect(heapGrowthMb, phase).toBeLessThan(MOST.heapGrowthMb);
    // Every attempt that was sent may have to be undone: those of the first 2 s, and a paced rest.
    expect(writesInFirstSecond, phase).toBeLessThan(5_000);
  }
});

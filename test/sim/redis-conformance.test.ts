// The conformance suite on the simulated Redis, in virtual time: what the simulator runs its worlds on is held to what the real
// server is held to. Cases of the public API wait in real time and run in `npm run test:all` (redis-api.long.test.ts); cases with processes need a
// server that others can reach.

import { describe, expect, it } from "vitest";
import { runCase, titleOf } from "../../src/testing/index.ts";
import { cases, plan, twin } from "./fixture.ts";

it("leaves out only what needs a server that others can reach", () => {
  const why = new Set(Object.values(plan.absent));
  expect([...why].filter((reason) => !reason.startsWith("scope is one process"))).toEqual([
    "it declares every kind",
  ]);
  expect(cases.length).toBeGreaterThan(100);
});

describe("the contract on a simulated Redis", () => {
  it.each(cases.filter(({ level }) => level === "contract").map((one) => [titleOf(one), one] as const))(
    "%s",
    async (_title, one) => {
      await expect(runCase(one, twin)).resolves.toBeUndefined();
    },
  );
});

// The ladder is no story: each naive lock really fails on a real server, and holdfast really does not.

import { describe, expect, it } from "vitest";
import { rungs } from "../../examples/ladder/rungs.ts";
import { withServers } from "../../examples/ladder/servers.ts";

describe("the ladder", () => {
  it("breaks at every naive rung, and nowhere else", async () => {
    const seen = await withServers(async (servers) => {
      const all: string[] = [];
      for (const rung of rungs) {
        const { naive, holdfast } = await rung.climb(servers);
        all.push(
          `${rung.name}: naive ${naive.broke ? "broke" : "held"}, holdfast ${holdfast.held ? "held" : "broke"}`,
        );
      }
      return all;
    });
    expect(seen).toEqual(rungs.map(({ name }) => `${name}: naive broke, holdfast held`));
  });
});

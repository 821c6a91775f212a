// The cases of the public API on the simulated Redis. They wait in real time.

import { describe, expect, it } from "vitest";
import { runCase, titleOf } from "../../src/testing/index.ts";
import { cases, twin } from "./fixture.ts";

describe("the public API on a simulated Redis", () => {
  it.each(cases.filter(({ level }) => level === "api").map((one) => [titleOf(one), one] as const))(
    "%s",
    async (_title, one) => {
      await expect(runCase(one, twin)).resolves.toBeUndefined();
    },
  );
});

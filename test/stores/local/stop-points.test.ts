// A process that is stopped or killed at some of its calls of the file system blocks nobody.
// stop-points.long.test.ts tries all of them.

import { expect, it } from "vitest";
import { checkStopPoint, countCalls } from "./stop-points.ts";

const POINTS = 8;

it.each([
  { signal: "SIGSTOP", isFirst: true },
  { signal: "SIGKILL", isFirst: false },
] as const)(
  "$signal at a call of the file system blocks no key past its lease (P1, P3, P10)",
  async (fault) => {
    const calls = await countCalls(fault.isFirst);
    let reached = 0;
    for (let i = 0; i < POINTS; i += 1) {
      const at = 1 + Math.floor(((i + 0.5) * calls) / POINTS);
      const when = i % 2 === 0 ? "before" : "after";
      if ((await checkStopPoint({ ...fault, when, at })) !== null) reached += 1;
    }
    expect(reached).toBeGreaterThan(POINTS / 2);
  },
);

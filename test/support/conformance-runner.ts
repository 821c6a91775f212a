// vitest as the runner of the conformance suite. Cases share nothing but the server, so they run beside each other;
// those that restart the server, count what it keeps or occupy the event loop run alone.

import { afterAll, beforeAll, describe, it } from "vitest";
import { allCases, CASE_MS, type Runner, titleOf } from "../../src/testing/index.ts";

const ALONE: readonly string[] = [
  ...["fences/server-restart", "hygiene/memory-per-name", "api/blocked-event-loop", "api/crowd"],
];

const titles: ReadonlySet<string> = new Set(
  allCases.filter(({ id }) => ALONE.includes(id)).map((one) => titleOf(one)),
);
if (titles.size !== ALONE.length) throw new Error(`some of these cases are gone: ${ALONE.join(", ")}`);

export const runner: Runner = {
  describe,
  // Longer than the suite waits, so that its own message is the one that is seen.
  it: (name, fn) => (titles.has(name) ? it : it.concurrent)(name, fn, CASE_MS + 30_000),
  beforeAll,
  afterAll,
};

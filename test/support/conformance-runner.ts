// vitest as the runner of the conformance suite. Cases share nothing but the server, so they run beside
// each other; those that restart the server, count what it keeps or occupy the event loop run alone.

import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { allCases, type Case, CASE_MS, type Runner, titleOf } from "../../src/testing/index.ts";
import { useCompiledChild } from "../../src/testing/child-process.ts";
import { builtDir } from "./built.ts";

useCompiledChild(join(builtDir(), "testing", "child.js"));

const ALONE: readonly string[] = [
  ...["fences/server-restart", "hygiene/memory-per-name", "api/blocked-event-loop", "api/crowd"],
];

function runnerWithAlone(isAlone: (one: Case) => boolean): Runner {
  const titles = new Set(allCases.filter(isAlone).map((one) => titleOf(one)));
  return {
    describe,
    // Longer than the suite waits, so that its own message is the one that is seen.
    it: (name, fn) => (titles.has(name) ? it : it.concurrent)(name, fn, 3 * CASE_MS + 30_000),
    beforeAll,
    afterAll,
  };
}

for (const id of ALONE) if (!allCases.some((one) => one.id === id)) throw new Error(`there is no case ${id}`);

export const runner: Runner = runnerWithAlone(({ id }) => ALONE.includes(id));

/**
 * For stores that read this machine's clock: at the level of the contract each case moves a virtual clock
 * of its own.
 */
export const machineClockRunner: Runner = runnerWithAlone(
  ({ id, level }) => level === "contract" || ALONE.includes(id),
);

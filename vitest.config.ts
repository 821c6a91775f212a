// Every part of the tests is a project of its own: see scripts/test-parts.mjs. Tests are never retried.
// A test waits for a condition, not for a time, so the deadlines are generous: they end a test that hangs.

import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./scripts/longest-first.mjs";
import { testParts } from "./scripts/test-parts.mjs";

/** Most tests wait for servers and processes, so two cores carry more than two files at once. */
const WORKERS = 5;
/** Of the conformance suite, which mostly waits. */
const CONCURRENT_CASES = 4;
/** Each is several processes that never rest. */
const FAULT_RUNS = 2;
const DEADLINE_MS = 180_000;
const LONG_DEADLINE_MS = 600_000;

export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    sequence: { sequencer: LongestFirst },
    projects: testParts(import.meta.dirname).map(({ name, isLong, include, exclude }) => ({
      test: {
        name,
        include,
        exclude: [...configDefaults.exclude, ...exclude],
        // Unit tests share no state, and a process for each file would cost more than its tests.
        isolate: name !== "unit",
        retry: 0,
        allowOnly: false,
        maxConcurrency: name.startsWith("faults") ? FAULT_RUNS : CONCURRENT_CASES,
        testTimeout: isLong ? LONG_DEADLINE_MS : DEADLINE_MS,
        hookTimeout: DEADLINE_MS,
        expect: { poll: { timeout: DEADLINE_MS } },
      },
    })),
  },
});

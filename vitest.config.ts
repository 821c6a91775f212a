// Every folder under test/ that holds tests is a project of its own. Tests are never retried.
// Side by side run tests that use neither real time nor real processes, and those that mostly wait for servers of their own.

import { defineConfig } from "vitest/config";
import { testFolders } from "./scripts/test-folders.mjs";

const SIDE_BY_SIDE = ["tidy", "types", "unit", "conformance", "servers", "security", "fuzz", "sim"];
const WORKERS = 3;
/** Its tests give way to others: how long they take says nothing. */
const VIRTUAL = "sim";
/** More settings of the same stores, which would take `npm test` too long: HOLDFAST_MORE=1 npx vitest run --project conformance. */
const MORE = Boolean(process.env["HOLDFAST_MORE"]);

export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    projects: testFolders(import.meta.dirname).map((name, index) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`, ...(MORE ? [`test/${name}/**/*.more.ts`] : [])],
        fileParallelism: SIDE_BY_SIDE.includes(name),
        sequence: { groupOrder: index },
        retry: 0,
        allowOnly: false,
        maxConcurrency: 2,
        testTimeout: name === VIRTUAL ? 300_000 : 40_000,
        hookTimeout: 60_000,
      },
    })),
  },
});

// Every folder under test/ that holds tests is a project of its own. Tests are never retried.
// Only tests that use neither real time nor real processes run side by side.

import { defineConfig } from "vitest/config";
import { testFolders } from "./scripts/test-folders.mjs";

const SIDE_BY_SIDE = ["tidy", "types", "unit"];

export default defineConfig({
  test: {
    projects: testFolders(import.meta.dirname).map((name, index) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        fileParallelism: SIDE_BY_SIDE.includes(name),
        sequence: { groupOrder: index },
        retry: 0,
        allowOnly: false,
        testTimeout: 40_000,
        hookTimeout: 60_000,
      },
    })),
  },
});

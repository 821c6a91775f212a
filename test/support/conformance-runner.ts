// vitest as the runner of the suite, with more patience than the suite itself has.

import { afterAll, beforeAll, describe, it } from "vitest";
import { CASE_MS, type Runner } from "../../src/testing/index.ts";

export const runner: Runner = {
  describe,
  it: (name, fn) => it(name, fn, CASE_MS + 10_000),
  beforeAll,
  afterAll,
};

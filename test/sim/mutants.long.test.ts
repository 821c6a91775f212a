// Each mutant is planted and must be seen by a checker that it names. `npm run mutants` does so for those
// that take longest.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { kill, killByTests, type Killed } from "../../sim/mutants/kill.ts";
import { mutants } from "../../sim/mutants/list.ts";
import { redisMutants } from "../../sim/mutants/redis-list.ts";
import { redlockMutants } from "../../sim/mutants/redlock-list.ts";
import { unitMutants } from "../../sim/mutants/unit-list.ts";

/** Written by `npm run mutants`. */
const killed = JSON.parse(
  readFileSync(join(import.meta.dirname, "..", "..", "sim", "mutants", "killed.json"), "utf8"),
) as Killed[];
const stores = [...redisMutants, ...redlockMutants];
/** Those that take long are killed by command. */
const soon = stores.filter(({ name }) => killed.some(({ mutant, runs }) => mutant === name && runs <= 3));

test.each([...mutants, ...soon])("the mistake is seen: $name", { timeout: 600_000 }, (mutant) => {
  const { by } = kill(mutant, 1, 3_000);
  expect(mutant.killers).toContain(by);
});

test.each(unitMutants)("a unit test sees the mistake: $name", { timeout: 600_000 }, (mutant) => {
  expect(killByTests(mutant).by).toBe("unit tests");
});

test("without a mistake the unit tests pass", { timeout: 600_000 }, () => {
  const tests = [...new Set(unitMutants.flatMap((mutant) => mutant.tests))];
  const none = {
    name: "no mistake",
    file: "core/lease/abandonment.ts",
    edits: [],
    tests,
    needsServer: true,
  } as const;
  expect(killByTests(none).by).toBeNull();
});

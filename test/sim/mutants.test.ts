import { expect, test } from "vitest";
import { checkers } from "../../sim/checkers/index.ts";
import { kill } from "../../sim/mutants/kill.ts";
import { mutants } from "../../sim/mutants/list.ts";

test("there are eighteen mutants, and each names checkers that exist", () => {
  expect(mutants).toHaveLength(18);
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(18);
  for (const { killers } of mutants) {
    for (const killer of killers) expect(Object.keys(checkers)).toContain(killer);
  }
});

test.each(mutants)("the mistake is seen: $name", { timeout: 180_000 }, (mutant) => {
  const { by } = kill(mutant, 1, 3_000);
  expect(mutant.killers).toContain(by);
});

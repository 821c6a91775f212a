// What is written down of the mutants fits the mutants and the checkers that there are.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkers } from "../../sim/checkers/index.ts";
import type { Killed } from "../../sim/mutants/kill.ts";
import { mutants } from "../../sim/mutants/list.ts";
import { redisMutants } from "../../sim/mutants/redis-list.ts";
import { redlockMutants } from "../../sim/mutants/redlock-list.ts";
import { unitMutants } from "../../sim/mutants/unit-list.ts";

/** Written by `npm run mutants`. */
const killed = JSON.parse(
  readFileSync(join(import.meta.dirname, "..", "..", "sim", "mutants", "killed.json"), "utf8"),
) as Killed[];
const stores = [...redisMutants, ...redlockMutants];
const all = [...mutants, ...stores];
test("each mutant of the core names checkers that exist", () => {
  expect(mutants).toHaveLength(24);
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  for (const { killers } of all) {
    for (const killer of killers) expect(Object.keys(checkers)).toContain(killer);
  }
});

test("each edit of a mutant fits exactly once in the source as it is", () => {
  const source = join(import.meta.dirname, "..", "..", "src");
  const misfits = [...all, ...unitMutants].flatMap(({ name, file, edits }) =>
    edits
      .filter((edit) => readFileSync(join(source, edit.file ?? file), "utf8").split(edit.find).length !== 2)
      .map(({ find }) => ({ name, find })),
  );
  expect(misfits).toEqual([]);
});

test("what is written down of them was killed by a checker that it names", () => {
  expect(killed.length).toBeGreaterThan(0);
  for (const { by, mutant } of killed) expect(all.find(({ name }) => name === mutant)?.killers).toContain(by);
});

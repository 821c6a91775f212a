// The numbers that README.md claims are true for the tree. More of each than claimed is fine.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readResults } from "../../faults/results.ts";
import { mutants } from "../../sim/mutants/list.ts";
import { redisMutants } from "../../sim/mutants/redis-list.ts";
import { redlockMutants } from "../../sim/mutants/redlock-list.ts";
import { unitMutants } from "../../sim/mutants/unit-list.ts";
import { allCases } from "../../src/testing/index.ts";

const root = join(import.meta.dirname, "..", "..");
const readme = readFileSync(join(root, "README.md"), "utf8");

/** The number before these words, in the section that is proved. */
function claimed(words: string): number {
  const [, proof = ""] = /<!-- proof:begin[^\n]*\n([\s\S]*?)<!-- proof:end/.exec(readme) ?? [];
  const number = new RegExp(`([\\d,]+) ${words}`).exec(proof)?.[1] ?? "";
  return Number(number.replaceAll(",", "") || Number.NaN);
}

test("the README is shorter than 200 lines", () => {
  expect(readme.split("\n").length).toBeLessThan(200);
});

test("there are at least as many conformance cases as the README says", () => {
  expect(allCases.length).toBeGreaterThanOrEqual(claimed("conformance cases"));
});

test("no promise broke in a recorded fault run", () => {
  expect(readResults().filter(({ violations }) => violations > 0)).toEqual([]);
});

test("the track record has at least as many bugs as the README says", () => {
  const record = readFileSync(join(root, "docs", "appendix", "track-record.md"), "utf8");
  const rows = record.split("\n").filter((line) => /^\| (?!(?:bug|found by) \|)/.test(line));
  expect(rows.length).toBeGreaterThanOrEqual(claimed("bugs found"));
});

test("there are at least as many planted bugs as the README says", () => {
  const planted = [mutants, redisMutants, redlockMutants, unitMutants].flat();
  expect(planted.length).toBeGreaterThanOrEqual(claimed("planted bugs"));
});

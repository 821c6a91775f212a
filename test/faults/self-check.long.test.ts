// Proof that a run would see a broken lock: clients that lie in one way each, through the same processes,
// journals and checkers as every other run.

import { rmSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { run } from "../../faults/run.ts";
import { type Cheat, CHEATS } from "../../faults/settings.ts";

/** Which checkers must complain, by their names. */
const EXPECTED: Readonly<Record<Cheat, readonly string[]>> = {
  "no-lock": ["exclusion", "fences"],
  "long-window": ["windowHonesty"],
  "fence-back": ["fences"],
  "true-release": ["ownerOnly"],
  "late-loss": ["lossInTime"],
  undying: ["outlived"],
  "slow-ask": ["bounds"],
  "bare-error": ["unnamed-error"],
  hog: ["recovery"],
  keep: ["leftovers"],
  "open-guard": ["guardedRegister"],
  "silent-close": ["exclusion"],
  "endless-close": ["closeInTime"],
};

/** Defects that show in one client only share a run, one client each. */
const RUNS: readonly (readonly Cheat[])[] = [
  ["no-lock"],
  ["long-window", "true-release", "late-loss", "undying", "slow-ask", "bare-error"],
  ["fence-back", "open-guard"],
  ["hog", "keep"],
  ["silent-close"],
  ["endless-close"],
];
/** Where a defect shows only under a fault. */
const FAULTS: Readonly<Partial<Record<Cheat, string>>> = {
  "silent-close": "shutdown",
  "endless-close": "shutdown",
};
const SECONDS = 2;
/** So that a fault strikes several times on a busy machine too. */
const FAULT_SECONDS = 8;

async function complaints(cheats: readonly Cheat[]): Promise<string[]> {
  const clients = Math.max(3, cheats.length);
  const fault = FAULTS[cheats[0] as Cheat];
  const { violations, kept } = await run({
    store: "local",
    fault: fault ?? "none",
    seed: 5,
    seconds: fault === undefined ? SECONDS : FAULT_SECONDS,
    clients,
    tasks: 3,
    cheats,
  });
  if (kept !== null) rmSync(kept, { recursive: true, force: true });
  return [...new Set(violations.map((one) => one.checker))];
}

describe("a run with planted defects", () => {
  it("was planned for every one of them", () => {
    expect(RUNS.flat().toSorted()).toEqual([...CHEATS].toSorted());
  });

  for (const cheats of RUNS) {
    it(`is failed for each of ${cheats.join(", ")}`, async () => {
      const expected = cheats.flatMap((cheat) => EXPECTED[cheat]);
      expect(await complaints(cheats)).toEqual(expect.arrayContaining(expected));
    });
  }
});

// What the explorations of the redlock model share: whole state spaces, and the mistakes that an exploration
// must find.

import { describe, expect, it } from "vitest";
import { explore } from "../../sim/models/explore.ts";
import { type Mistake, MISTAKES, redlockModel, type RedlockModelSettings } from "../../sim/models/redlock.ts";

export const SMALL: RedlockModelSettings = {
  nodes: 3,
  attempts: 2,
  time: "none",
  proposals: 1,
  renewals: false,
  forgetting: false,
};
const LIMIT = 1_000_000;
const DEADLINE_MS = 600_000;

export function testAllStates(spaces: readonly (readonly [string, Partial<RedlockModelSettings>])[]): void {
  describe("all states of three nodes and two attempts", () => {
    it.each(spaces)(
      "%s",
      (_name, more) => {
        const { states, complete, broken, path } = explore(redlockModel({ ...SMALL, ...more }), LIMIT);
        expect({ broken, path, complete }).toEqual({ broken: null, path: [], complete: true });
        expect(states).toBeGreaterThan(5_000);
      },
      DEADLINE_MS,
    );
  });
}

const SETTINGS: Readonly<Record<Mistake, Partial<RedlockModelSettings>>> = {
  "counter-per-node": {},
  "lower-counted": { proposals: 2 },
  "late-counted": { time: "honest" },
  "renewal-recreates": { renewals: true },
  "forgotten-counter": { forgetting: true },
  "jumped-node-votes": { jumping: true, time: "honest" },
  "counter-expires": {},
  "reads-first": { forgetting: true },
  "room-forgotten": {},
  "release-returns-all": {},
};

/** Mistakes whose state space is large. */
export const SLOW_MISTAKES: readonly Mistake[] = ["lower-counted", "renewal-recreates", "reads-first"];
export const QUICK_MISTAKES: readonly Mistake[] = (Object.keys(MISTAKES) as Mistake[]).filter(
  (mistake) => !SLOW_MISTAKES.includes(mistake),
);

export function testMistakes(mistakes: readonly Mistake[]): void {
  describe("a mistake is found", () => {
    it.each(mistakes.map((mistake) => [mistake, MISTAKES[mistake]] as const))(
      "%s: %s",
      (mistake) => {
        const { broken, path } = explore(redlockModel({ ...SMALL, ...SETTINGS[mistake], mistake }), LIMIT);
        expect(broken).not.toBeNull();
        expect(path.length).toBeGreaterThan(5);
      },
      DEADLINE_MS,
    );
  });
}

// The redlock algorithm, explored: whatever arrives late, in another order or never, and whenever a node drops a holder. And the
// mistakes that the exploration must find, each of which somebody has made.

import { describe, expect, it } from "vitest";
import { explore, wander } from "../../sim/models/explore.ts";
import { type Mistake, MISTAKES, redlockModel, type RedlockModelSettings } from "../../sim/models/redlock.ts";

const SMALL: RedlockModelSettings = {
  nodes: 3,
  attempts: 2,
  time: "none",
  proposals: 1,
  renewals: false,
  forgetting: false,
};
const LIMIT = 1_000_000;
/** Half a minute on an idle machine. */
const PATIENCE_MS = 500_000;

describe("all states of three nodes and two attempts", () => {
  it.each<[string, Partial<RedlockModelSettings>]>([
    ["proposals that are repeated, holders that are dropped at any moment (P3)", { proposals: 2 }],
    ["renewals, holders that are dropped at any moment (P3, P6)", { renewals: true }],
    ["a node that forgets, sits out and is taken in again (P3)", { forgetting: true }],
    ["honest clocks, proposals that are repeated (P1, P3)", { proposals: 2, time: "honest" }],
    ["honest clocks, a node that forgets (P1, P3)", { forgetting: true, time: "honest" }],
  ])(
    "%s",
    (_name, more) => {
      const { states, complete, broken, path } = explore(redlockModel({ ...SMALL, ...more }), LIMIT);
      expect({ broken, path, complete }).toEqual({ broken: null, path: [], complete: true });
      expect(states).toBeGreaterThan(5_000);
    },
    PATIENCE_MS,
  );
});

describe("as many states as time allows", () => {
  it.each<[string, Partial<RedlockModelSettings>]>([
    ["three attempts (P3)", { attempts: 3, proposals: 2, renewals: true }],
    ["five nodes (P3)", { nodes: 5, proposals: 2, renewals: true, forgetting: true }],
    ["five nodes, three attempts, honest clocks (P1, P3)", { nodes: 5, attempts: 3, time: "honest" }],
  ])(
    "%s",
    (_name, more) => {
      const model = redlockModel({ ...SMALL, ...more });
      expect(explore(model, 20_000)).toMatchObject({ broken: null, states: 20_000 });
      expect(wander(model, 500, 1)).toMatchObject({ broken: null });
    },
    PATIENCE_MS,
  );
});

describe("a mistake is found", () => {
  const where: Readonly<Record<Mistake, Partial<RedlockModelSettings>>> = {
    "counter-per-node": {},
    "lower-counted": { proposals: 2 },
    "late-counted": { time: "honest" },
    "renewal-recreates": { renewals: true },
    "forgotten-counter": { forgetting: true },
    "reads-first": { forgetting: true },
    "room-forgotten": {},
    "release-returns-all": {},
  };

  it.each(Object.entries(MISTAKES) as [Mistake, string][])(
    "%s: %s",
    (mistake) => {
      const { broken, path } = explore(redlockModel({ ...SMALL, ...where[mistake], mistake }), LIMIT);
      expect(broken).not.toBeNull();
      expect(path.length).toBeGreaterThan(5);
    },
    PATIENCE_MS,
  );
});

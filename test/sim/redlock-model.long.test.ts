// The one part of the redlock model that takes minutes and gigabytes to see whole:
// NODE_OPTIONS=--max-old-space-size=12000 npx vitest run --project sim-long redlock-model

import { expect, it } from "vitest";
import { explore } from "../../sim/models/explore.ts";
import { redlockModel } from "../../sim/models/redlock.ts";

const LIMIT = 10_000_000;
const PATIENCE_MS = 7_200_000;

it(
  "all states of three nodes and two attempts: proposals that are repeated, and renewals, together (P3, P6)",
  () => {
    const settings = { nodes: 3, attempts: 2, time: "none", proposals: 2 } as const;
    const model = redlockModel({ ...settings, renewals: true, forgetting: false });
    const { states, complete, broken, path } = explore(model, LIMIT);
    expect({ broken, path, complete }).toEqual({ broken: null, path: [], complete: true });
    expect(states).toBeGreaterThan(5_000_000);
  },
  PATIENCE_MS,
);

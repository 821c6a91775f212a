// P4: a guarded register never accepts a fence below one that it has accepted, and no accepted write is lost: each adds
// one to what its client read under the same fence.

import { type Checker, ofType, type Violation } from "../history.ts";

export const guardedRegister: Checker = (history) => {
  const violations: Violation[] = [];
  const largest = new Map<string, bigint>();
  const value = new Map<string, number>();
  const writer = new Map<string, bigint>();
  for (const touch of ofType(history, "touched")) {
    if (!touch.guarded) continue;
    const seen = largest.get(touch.key) ?? 0n;
    const fence = BigInt(touch.fence);
    if (touch.accepted && fence < seen) {
      violations.push({
        promise: "P4",
        at: touch.at,
        what: `${touch.key}: the guard let ${fence} through after ${seen}`,
      });
    }
    if (!touch.accepted) continue;
    if (fence > seen) largest.set(touch.key, fence);
    const before = value.get(touch.key) ?? 0;
    // The network may deliver one and the same write twice.
    const repeated = writer.get(touch.key) === fence && touch.after === before;
    if (touch.before !== before) {
      violations.push({
        promise: "P4",
        at: touch.at,
        what: `${touch.key}: held ${touch.before}, the fold of accepted writes says ${before}`,
      });
    }
    if (touch.write && touch.after !== before + 1 && !repeated) {
      violations.push({
        promise: "P4",
        at: touch.at,
        what: `${touch.key}: a write under fence ${fence} undid another (${before} -> ${touch.after})`,
      });
    }
    value.set(touch.key, touch.after);
    if (touch.write) writer.set(touch.key, fence);
  }
  return violations;
};

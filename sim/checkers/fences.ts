// P3: no two grants of a key share a fence, and a grant that was asked for after another was returned has a larger one.

import { beliefs } from "../beliefs.ts";
import type { Checker, Violation } from "../history.ts";

export const fences: Checker = (history) => {
  const blurMs = history.context.forgetful ? history.context.handOffBlurMs : 0;
  const byKey = new Map<string, { fence: bigint; asked: number; granted: number; lease: string }[]>();
  for (const belief of beliefs(history)) {
    belief.ask.keys.forEach((key, i) => {
      if (belief.fences[i] === undefined) return;
      const grant = {
        fence: BigInt(belief.fences[i] as string),
        asked: belief.ask.at,
        granted: belief.from,
        lease: belief.lease,
      };
      byKey.set(key, [...(byKey.get(key) ?? []), grant]);
    });
  }
  const violations: Violation[] = [];
  for (const [key, grants] of byKey) {
    const seen = new Map<bigint, string>();
    for (const grant of grants) {
      const twin = seen.get(grant.fence);
      if (twin !== undefined)
        violations.push({
          promise: "P3",
          at: grant.granted,
          what: `${key}: two grants have fence ${grant.fence}`,
        });
      seen.set(grant.fence, grant.lease);
    }
    violations.push(...reversed(key, grants, blurMs));
  }
  return violations;
};

/** The largest fence returned before each ask must be smaller than what that ask got. */
function reversed(
  key: string,
  grants: readonly { fence: bigint; asked: number; granted: number }[],
  blurMs: number,
): Violation[] {
  const returned = [...grants].sort((a, b) => a.granted - b.granted);
  const asked = [...grants].sort((a, b) => a.asked - b.asked);
  const violations: Violation[] = [];
  let next = 0;
  let largest = -1n;
  for (const grant of asked) {
    for (
      ;
      next < returned.length && (returned[next] as { granted: number }).granted < grant.asked - blurMs;
      next += 1
    ) {
      const { fence } = returned[next] as { fence: bigint };
      if (fence > largest) largest = fence;
    }
    if (grant.fence <= largest) {
      violations.push({
        promise: "P3",
        at: grant.granted,
        what: `${key}: fence ${grant.fence} came after ${largest}`,
      });
    }
  }
  return violations;
}

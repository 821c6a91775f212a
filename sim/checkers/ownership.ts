// P5: only the owner releases, and a release after the end says false. P6: lost is for ever.

import { beliefs } from "../beliefs.ts";
import { type Checker, ofType, type Violation } from "../history.ts";

export const ownerOnly: Checker = (history) => {
  const violations: Violation[] = [];
  const ends = new Map(beliefs(history).map((belief) => [belief.lease, belief]));
  for (const event of ofType(history, "released")) {
    const belief = ends.get(event.lease);
    if (belief === undefined || event.answer !== true) continue;
    if (belief.ended === "lost") {
      violations.push({
        promise: "P5",
        at: event.at,
        what: `${event.lease} was lost, and yet its release said true`,
      });
    }
  }
  violations.push(...freedByOthers(history));
  return violations;
};

/** What the store frees must have been let go of, lost, crashed, expired or revoked: never taken from a holder that still believes. */
function freedByOthers(history: Parameters<Checker>[0]): Violation[] {
  if (history.context.forgetful) return [];
  const violations: Violation[] = [];
  const holding = new Map<string, { fence: bigint; room: bigint }>();
  const all = beliefs(history);
  for (const event of ofType(history, "store-holds", "store-free")) {
    const name = `${event.key}\0${event.id}`;
    if (event.type === "store-holds") {
      holding.set(name, { fence: BigInt(event.fence ?? "0"), room: BigInt(event.room ?? 0) });
      continue;
    }
    const hold = holding.get(name);
    holding.delete(name);
    if (hold === undefined) continue;
    const robbed = all.find((belief) => {
      const fence = BigInt(belief.fences[belief.ask.keys.indexOf(event.key)] ?? "-1");
      return (
        hold.fence <= fence &&
        fence <= hold.fence + hold.room &&
        belief.from < event.at &&
        event.at < belief.to - history.context.slackMs
      );
    });
    if (robbed !== undefined) {
      violations.push({
        promise: "P5",
        at: event.at,
        what: `${robbed.lease} still believed when the store freed its key`,
      });
    }
  }
  return violations;
}

export const noRevival: Checker = (history) => {
  const violations: Violation[] = [];
  const lost = new Set<string>();
  for (const event of ofType(history, "lost", "renewed")) {
    if (event.type === "renewed" && lost.has(event.lease)) {
      violations.push({ promise: "P6", at: event.at, what: `${event.lease} was renewed after it was lost` });
    }
    if (event.type === "lost") lost.add(event.lease);
  }
  return violations;
};

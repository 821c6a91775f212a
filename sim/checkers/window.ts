// P2: no holder believes longer than the store keeps the key for it, nor longer than its ttl.

import { beliefs } from "../beliefs.ts";
import { type Checker, ofType, type StoreStep, type Violation } from "../history.ts";
import { stops } from "../stops.ts";

/** A waiter that was chosen is kept the key for at least this long, however short its ttl. */
const SHORTEST_CLAIM_MS = 200;

export const windowHonesty: Checker = (history) => {
  const violations: Violation[] = [];
  const ttlOf = new Map(beliefs(history).map((belief) => [belief.lease, belief.ask.ttlMs]));
  const keyOf = new Map(beliefs(history).map((belief) => [belief.lease, belief.ask.keys[0] as string]));
  const kept = new Map<string, StoreStep[]>();
  const seesStore = history.events.some((event) => event.type === "store-holds");
  const { slackMs, forgetful } = history.context;
  for (const event of history.events) {
    if (event.type === "store-holds") kept.set(event.key, [...(kept.get(event.key) ?? []), event]);
    if (event.type !== "granted" && event.type !== "renewed" && event.type !== "believes") continue;
    const remaining = event.remainingMs ?? 0;
    const ttlMs = ttlOf.get(event.lease) ?? Number.POSITIVE_INFINITY;
    if (event.type === "granted" && remaining > Math.max(ttlMs, SHORTEST_CLAIM_MS) + slackMs) {
      violations.push({
        promise: "P2",
        at: event.at,
        what: `${event.lease} is believed for ${remaining} ms with a ttl of ${ttlMs}`,
      });
    }
    if (!seesStore || forgetful) continue;
    const until = keptUntil(
      kept.get(keyOf.get(event.lease) ?? "") ?? [],
      BigInt(event.lease.split("@").at(-1) as string),
    );
    if (event.at + remaining > until + slackMs) {
      violations.push({
        promise: "P2",
        at: event.at,
        what: `${event.lease} is believed until ${(event.at + remaining).toFixed(1)}, the store keeps it until ${until.toFixed(1)}`,
      });
    }
  }
  return violations;
};

/** Of the ttl: what drift and the rate of a client's clock may take. */
const DRIFT_SHARE = 0.1;

/**
 * P2: a lease starts with its full ttl, also after waiting. Counted in calm runs, in which every attempt is
 * answered.
 */
export const fullTtl: Checker = (history) => {
  const { calm, oneByOne, roundTripMs, handOffBlurMs, slackMs } = history.context;
  if (!calm) return [];
  const asks = new Map(ofType(history, "ask").map((ask) => [ask.ask, ask]));
  return ofType(history, "granted").flatMap((grant) => {
    const { ttlMs = 0, keys = [] } = asks.get(grant.ask) ?? {};
    if (oneByOne === true && keys.length > 1) return [];
    const leastMs = ttlMs * (1 - DRIFT_SHARE) - roundTripMs - handOffBlurMs - slackMs;
    if (grant.remainingMs >= leastMs) return [];
    const what = `${grant.lease} starts with ${grant.remainingMs.toFixed(1)} ms of its ttl of ${ttlMs}`;
    return [{ promise: "P2", at: grant.at, what }];
  });
};

/** The store's last word about the grant that this fence belongs to. */
function keptUntil(steps: readonly StoreStep[], fence: bigint): number {
  for (let i = steps.length - 1; i >= 0; i -= 1) {
    const step = steps[i] as StoreStep;
    const first = BigInt(step.fence ?? "0");
    if (first <= fence && fence <= first + BigInt(step.room ?? 0)) return step.until ?? 0;
  }
  return Number.NEGATIVE_INFINITY;
}

/** The loss is signalled up to this long before the window ends. */
const SIGNAL_MARGIN_MS = 60;
/** A clock that was set is looked at this often; `held` sees it at once, the signal at the next look. */
const CLOCK_NOTICED_MS = 260;

/** P7: a loss is signalled before the window ends, or when its process runs again after that. */
export const lossInTime: Checker = (history) => {
  const windows = new Map(beliefs(history).map((belief) => [belief.lease, belief]));
  const reset = new Set(ofType(history, "believes").map((event) => event.lease));
  return ofType(history, "lost").flatMap((event) => {
    const windowEnd = windows.get(event.lease)?.windowEnd ?? Number.POSITIVE_INFINITY;
    const moved = history.context.clocksSet === true || reset.has(event.lease);
    const allowedMs = history.context.slackMs + (moved ? CLOCK_NOTICED_MS : 0);
    // A clock that was set is noticed some time after the end, unless the process stops before that.
    const dueMs = stops(history, event.client).reduce(
      (due, [from, to]) =>
        from <= due && to >= windowEnd - SIGNAL_MARGIN_MS ? Math.max(due, to + allowedMs) : due,
      windowEnd + allowedMs,
    );
    if (event.at <= dueMs) return [];
    const late = (event.at - windowEnd).toFixed(1);
    return [
      { promise: "P7", at: event.at, what: `${event.lease} was told lost ${late} ms after its window` },
    ];
  });
};

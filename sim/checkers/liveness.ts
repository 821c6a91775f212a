// After the faults have stopped. P10: a crashed holder's key is free within the declared bound. P11: a free key with a live
// waiter is granted within one poll bound. Both show as a bound on every ask that ends, or should end, after the healing.

import { beliefs } from "../beliefs.ts";
import { type Ask, type Checker, type History, ofType, type Violation } from "../history.ts";
import { stops } from "../stops.ts";

export const recovery: Checker = (history) => {
  const healedAt = ofType(history, "healed")[0]?.at;
  if (healedAt === undefined) return [];
  const violations: Violation[] = [];
  const { context } = history;
  const outcomes = new Map(ofType(history, "granted", "refused").map((event) => [event.ask, event]));
  const longestTtl = ofType(history, "ask").reduce((ttl, ask) => Math.max(ttl, ask.ttlMs), 0);
  // Nobody crashed: then nothing has to run out, because whatever is over was abandoned. Locks that are
  // closed while the store cannot be told leave their keys to the ttl, as a crash does.
  const crashed = history.events.some(
    (event) =>
      event.type === "crashed" ||
      (event.type === "fault" && !context.calm && event.what.startsWith("shutdown")),
  );
  const expiryMs = context.freeAfterCrashMs(longestTtl);
  const freeMs = crashed ? expiryMs : Math.min(expiryMs, context.abandonMs);
  const callMs = context.callTimeoutMs(longestTtl);
  const boundMs = freeMs + callMs + context.claimMs + 2 * context.pollMs + context.slackMs;
  const probes = ofType(history, "ask").filter((ask) => ask.client.startsWith("probe"));
  const first = new Map<string, Ask>();
  const last = new Map<string, Ask>();
  // Who is told that the store cannot be reached asks again: the time since its first ask counts.
  for (const ask of probes) {
    const who = [ask.client, ...ask.keys].join();
    if (!first.has(who)) first.set(who, ask);
    last.set(who, ask);
  }
  for (const [who, ask] of first) {
    const outcome = outcomes.get(last.get(who)?.ask ?? "");
    if (outcome?.type === "granted") {
      // Time in which somebody alive held the key is that holder's, not the store's.
      const idleMs = outcome.at - ask.at - coveredMs(history, ask, outcome.at);
      if (idleMs <= boundMs) continue;
    }
    const took = outcome?.type === "granted" ? `${(outcome.at - ask.at).toFixed(0)} ms` : "never";
    violations.push({
      promise: "P10",
      at: outcome?.at ?? healedAt,
      what: `${ask.keys.join()} was granted after the healing: ${took}, bound ${boundMs.toFixed(0)} ms`,
    });
  }
  return violations;
};

/** How much of a span is covered by holders that believed in one of the keys, or by times in which nobody could be served. */
function coveredMs(history: History, { keys, client, at: from }: Ask, to: number): number {
  // Who waits for several keys at once keeps its place in each line, so any of them may be what all wait for.
  const several = ofType(history, "ask").some((ask) => ask.keys.length > 1);
  const held = beliefs(history)
    .filter((belief) => several || belief.ask.keys.some((key) => keys.includes(key)))
    .map((belief) => [belief.from, belief.to] as const);
  const spans = [...held, ...stops(history, client), ...(history.context.machineStalls ?? [])]
    .map(([start, end]) => [Math.max(from, start), Math.min(to, end)] as const)
    .filter(([start, end]) => end > start)
    .sort((a, b) => a[0] - b[0]);
  let covered = 0;
  let reached = from;
  for (const [start, end] of spans) {
    if (end <= reached) continue;
    covered += end - Math.max(start, reached);
    reached = end;
  }
  return covered;
}

/** P11: between two events in which the key was free and somebody live waited, no more than a poll bound may pass. */
export const wakeUp: Checker = (history) => {
  const healed = ofType(history, "healed")[0]?.at;
  if (healed === undefined || history.context.forgetful) return [];
  // Who stands first in line and waits for another key too may leave this one idle for as long as that takes.
  if (ofType(history, "store-seated").some((event) => event.several === true)) return [];
  // A call that was lost before the healing is known to be lost one timeout later.
  const healedAt = healed + history.context.callTimeoutMs(Number.POSITIVE_INFINITY);
  const violations: Violation[] = [];
  const { pollMs, slackMs, claimMs } = history.context;
  const freeSince = new Map<string, number>();
  const holders = new Map<string, Set<string>>();
  for (const event of ofType(history, "store-holds", "store-free")) {
    const now = holders.get(event.key) ?? new Set();
    holders.set(event.key, now);
    const idleMs = event.at - Math.max(healedAt, freeSince.get(event.key) ?? event.at);
    if (event.type === "store-holds") {
      const waited = waiting(history, event.key, event.id);
      const lateMs = event.at - Math.max(healedAt, freeSince.get(event.key) ?? event.at, waited);
      if (now.size === 0 && event.at > healedAt && idleMs > 0 && lateMs > pollMs + claimMs + slackMs) {
        violations.push({
          promise: "P11",
          at: event.at,
          what: `${event.key} was free for ${lateMs.toFixed(0)} ms with a live waiter`,
        });
      }
      now.add(event.id);
    } else {
      now.delete(event.id);
      if (now.size === 0) freeSince.set(event.key, event.at);
    }
  }
  return violations;
};

function waiting(history: Parameters<Checker>[0], key: string, id: string): number {
  const seat = ofType(history, "store-seated").find((event) => event.key === key && event.id === id);
  return seat?.at ?? Number.POSITIVE_INFINITY;
}

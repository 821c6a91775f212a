// P8: an ask that was refused is never held, and each ask has one outcome. P13: it has it within its wait and one call.
// P9: several keys are held together or not at all.

import { type Checker, ofType, type Violation } from "../history.ts";
import { stoppedMs } from "../stops.ts";

export const oneOutcome: Checker = (history) => {
  const violations: Violation[] = [];
  const settled = new Map<string, string>();
  for (const event of ofType(history, "granted", "refused")) {
    const before = settled.get(event.ask);
    if (before !== undefined) {
      violations.push({
        promise: "P8",
        at: event.at,
        what: `${event.ask} was ${before} and then ${event.type}`,
      });
    }
    settled.set(event.ask, event.type);
  }
  for (const event of ofType(history, "granted")) {
    if (event.remainingMs <= 0)
      violations.push({ promise: "P8", at: event.at, what: `${event.lease} was handed out after its end` });
  }
  return violations;
};

export const allOrNone: Checker = (history) => {
  const asks = new Map(ofType(history, "ask").map((ask) => [ask.ask, ask]));
  return ofType(history, "granted")
    .filter((event) => event.fences.length !== (asks.get(event.ask)?.keys.length ?? 0))
    .map((event) => ({
      promise: "P9",
      at: event.at,
      what: `${event.lease} has ${event.fences.length} of its keys`,
    }));
};

/** After a blocked event loop, a call waits so much longer for an answer that may be there already. */
const UNREAD_MS = 50;

export const bounds: Checker = (history) => {
  const violations: Violation[] = [];
  const { context } = history;
  const overAt = history.events.at(-1)?.at ?? 0;
  const crashed = new Map(ofType(history, "crashed").map((event) => [event.client, event.at]));
  const outcomes = new Map(ofType(history, "granted", "refused").map((event) => [event.ask, event.at]));
  for (const ask of ofType(history, "ask")) {
    if (ask.waitMs === Number.POSITIVE_INFINITY) continue;
    const outcome = outcomes.get(ask.ask) ?? crashed.get(ask.client) ?? overAt;
    // Keys that are taken one after another: a call for each, and one to give back what was taken.
    const calls = context.oneByOne === true && ask.keys.length > 1 ? ask.keys.length + 1 : 1;
    const stillMs = stoppedMs(history, ask.client, ask.at, outcome, context.machineStalls);
    const unreadMs = stillMs > 0 ? calls * UNREAD_MS : 0;
    const boundMs = ask.waitMs + calls * context.callTimeoutMs(ask.ttlMs) + stillMs + unreadMs;
    if (outcome - ask.at > boundMs + context.slackMs) {
      const took = (outcome - ask.at).toFixed(0);
      violations.push({
        promise: "P13",
        at: outcome,
        what: `${ask.ask} took ${took} ms, bound ${boundMs.toFixed(0)}`,
      });
    }
  }
  return violations;
};

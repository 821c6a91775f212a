// P15: nobody is refused as part of a circle that never was; of one circle only one is refused; and no circle lasts.

import { type Belief, beliefs } from "../beliefs.ts";
import { type Ask, type Checker, type History, ofType, type Violation } from "../history.ts";

/** How soon a circle is found. */
const FOUND_MS = 2_000;
/** Questions to the store that follow each other until then: notes, their repetition by all, and readings over two keys. */
const QUESTIONS = 9;

/** An ask that waits while its actor holds something. */
interface Waiting {
  readonly ask: Ask;
  readonly to: number;
  readonly code: string | null;
  readonly own: Belief;
}

/** A circle while it lasted. */
interface Circle {
  readonly members: readonly Waiting[];
  readonly from: number;
  readonly to: number;
}

export const deadlocks: Checker = (history) => {
  // Where locks were forgotten two may hold one key, and nothing can be said of who waits for whom.
  if (history.context.forgetful) return [];
  const waiting = waitingAsks(history);
  const circles = findCircles(waiting);
  return [
    ...falseAlarms(waiting, circles),
    ...ownAlarms(history),
    ...tooMany(circles),
    ...late(history, circles),
  ];
};

function waitingAsks(history: History): Waiting[] {
  const outcomes = new Map(ofType(history, "granted", "refused").map((event) => [event.ask, event]));
  const crashed = new Map(ofType(history, "crashed").map((event) => [event.client, event.at]));
  const overAt = history.events.at(-1)?.at ?? 0;
  const held = new Map(beliefs(history).map((belief) => [belief.lease, belief]));
  return ofType(history, "ask").flatMap((ask) => {
    const own = ask.within === undefined ? undefined : held.get(ask.within);
    if (own === undefined) return [];
    const outcome = outcomes.get(ask.ask);
    const to = Math.min(outcome?.at ?? overAt, crashed.get(ask.client) ?? overAt);
    return [{ ask, to, code: outcome?.type === "refused" ? outcome.code : null, own }];
  });
}

/** With two keys a circle has two members: each holds what the other wants. */
function findCircles(waiting: readonly Waiting[]): Circle[] {
  const circles: Circle[] = [];
  waiting.forEach((one, i) => {
    for (const other of waiting.slice(i + 1)) {
      if (one.own.lease === other.own.lease) continue;
      if (!wants(one, other) || !wants(other, one)) continue;
      const from = Math.max(one.ask.at, other.ask.at);
      // Whoever is refused has waited to the end; whoever lost what it held has not.
      const to = Math.min(one.to, other.to, one.own.to, other.own.to);
      if (to > from) circles.push({ members: [one, other], from, to });
    }
  });
  return circles;
}

function wants(one: Waiting, other: Waiting): boolean {
  return one.ask.keys.some((key) => other.own.ask.keys.includes(key));
}

function falseAlarms(waiting: readonly Waiting[], circles: readonly Circle[]): Violation[] {
  return waiting
    .filter((one) => one.code === "ERR_LOCK_DEADLOCK")
    .filter((one) => !circles.some((circle) => circle.members.includes(one)))
    .map((one) => ({
      promise: "P15",
      at: one.to,
      what: `${one.ask.ask} was refused, but there was no circle`,
    }));
}

/** An ask that is nested in nothing but the scope of its client: nobody waits for what that scope holds. */
function ownAlarms(history: History): Violation[] {
  const alone = new Set(
    ofType(history, "ask")
      .filter((ask) => ask.within === undefined)
      .map(({ ask }) => ask),
  );
  return ofType(history, "refused")
    .filter(({ ask, code }) => code === "ERR_LOCK_DEADLOCK" && alone.has(ask))
    .map(({ ask, at }) => ({
      promise: "P15",
      at,
      what: `${ask} was refused, but its actor held no such key`,
    }));
}

function tooMany(circles: readonly Circle[]): Violation[] {
  return circles
    .filter(({ members }) => members.every((one) => one.code === "ERR_LOCK_DEADLOCK"))
    .filter(
      ({ members }) =>
        !members.some((one) => circles.filter((other) => other.members.includes(one)).length > 1),
    )
    .map(({ members, to }) => ({
      promise: "P15",
      at: to,
      what: `${members.map((one) => one.ask.ask).join(" and ")} were both refused for one circle`,
    }));
}

function late(history: History, circles: readonly Circle[]): Violation[] {
  const { context } = history;
  const healedAt = ofType(history, "healed")[0]?.at ?? Number.POSITIVE_INFINITY;
  // A call that was lost before the healing is known to be lost one timeout later.
  const since = context.calm ? 0 : healedAt + context.callTimeoutMs(Number.POSITIVE_INFINITY);
  const boundMs = FOUND_MS + QUESTIONS * context.roundTripMs + context.slackMs;
  return circles
    .filter(({ from, to }) => to - Math.max(from, since) > boundMs)
    .map(({ members, from, to }) => ({
      promise: "P15",
      at: to,
      what: `${members.map((one) => one.ask.ask).join(" and ")} waited for each other for ${(to - from).toFixed(0)} ms`,
    }));
}

// P1 and P3 as one question: is there an order of all grants and ends that a lock could have had, in which
// each of them takes effect between its call and its answer? (Herlihy and Wing, 1990.) Each key is judged by
// itself, which is enough: linearizability is local.
//
// A search for such an order is exponential in general. Here the fences name the order of the grants, so only
// one order is left to try:
//
// 1. The grants of a key take effect in the order of their fences.
// 2. Each takes effect as early as it can: after its call, after the grant before it, and after the end of
//    each earlier holder that it excludes. An early moment never makes a later grant impossible.
// 3. If that moment is later than the answer, no order exists.
//
// A holder ends between the call of release and its answer. If release was not answered, if the holder was
// lost or if its process died, the store may keep the key for any time after that. A request without an
// outcome may have been granted or not. Both can only make "busy" right: the answer "busy" is wrong if
// nobody can have had the key, or have been in its queue, between the call and its answer.
//
// The cost is n log n: 25 to 80 ms for 10,000 events.

import { type Belief, beliefs } from "../beliefs.ts";
import { type Ask, type Checker, type History, ofType, type Violation } from "../history.ts";

interface Operation {
  readonly belief: Belief;
  readonly fence: bigint;
  /** When it ends at the earliest. */
  readonly endsAt: number;
}

interface Holder {
  readonly operation: Operation;
  readonly endsAt: number;
}

export const linearizability: Checker = (history) => {
  if (history.context.forgetful) return [];
  const byKey = new Map<string, Operation[]>();
  for (const belief of beliefs(history)) {
    belief.ask.keys.forEach((key, i) => {
      const fence = belief.fences[i];
      if (fence === undefined) return;
      const all = byKey.get(key) ?? [];
      byKey.set(key, all);
      all.push({ belief, fence: BigInt(fence), endsAt: belief.to });
    });
  }
  return [...[...byKey].flatMap(([key, all]) => grants(key, all)), ...wronglyBusy(history)];
};

function grants(key: string, all: readonly Operation[]): Violation[] {
  const violations: Violation[] = [];
  let [previous, at]: [Operation | null, number] = [null, Number.NEGATIVE_INFINITY];
  let holders: Holder[] = [];
  for (const operation of [...all].sort((a, b) => compare(a.fence, b.fence))) {
    const { ask, from: answeredAt, lease } = operation.belief;
    const since = Math.max(at, ask.at);
    const waitedFor = blockers(operation, holders, since);
    at = Math.max(since, ...waitedFor.map(({ endsAt }) => endsAt));
    if (at > answeredAt) {
      const last = waitedFor.find(({ endsAt }) => endsAt === at)?.operation ?? previous;
      const other = last?.belief.lease ?? "its call";
      violations.push({
        promise: "P1",
        at: answeredAt,
        what: `${key}: no order of grants and ends explains ${lease} beside ${other}`,
      });
      // What follows is judged as if this grant had been right.
      at = answeredAt;
    }
    holders = holders.filter(({ endsAt }) => endsAt > at);
    holders.push({ operation, endsAt: Math.max(at, operation.endsAt) });
    previous = operation;
  }
  return violations;
}

/** The holders that must end before `operation` can be granted. */
function blockers(operation: Operation, holders: readonly Holder[], since: number): Holder[] {
  const { ask } = operation.belief;
  const held = holders.filter(({ endsAt }) => endsAt > since).sort((a, b) => a.endsAt - b.endsAt);
  const excluded = held.filter(({ operation: { belief } }) => !isCompatible(ask, belief.ask));
  if (ask.limit === 1) return excluded;
  // Permits: those who end first make room.
  const sharing = held.filter((one) => !excluded.includes(one));
  const waitedFor = [...excluded];
  for (const one of sharing) {
    const rest = sharing
      .filter((other) => !waitedFor.includes(other))
      .map(({ operation: of }) => of.belief.ask);
    const taken = rest.reduce((sum, { permits }) => sum + permits, ask.permits);
    if (taken <= Math.max(ask.limit, ...rest.map(({ limit }) => limit))) break;
    waitedFor.push(one);
  }
  return waitedFor;
}

function isCompatible(a: Ask, b: Ask): boolean {
  if (a.limit > 1 && b.limit > 1) return true;
  return a.mode === "shared" && b.mode === "shared";
}

/** When a request may have had the key, or a position in its queue. */
interface Span {
  readonly ask: string;
  readonly from: number;
  readonly to: number;
}

/** Judged where every request has one key: who waits for several keys takes part in the queue of each. */
function wronglyBusy(history: History): Violation[] {
  const asks = new Map(ofType(history, "ask").map((ask) => [ask.ask, ask]));
  if ([...asks.values()].some(({ keys }) => keys.length > 1)) return [];
  const latest = new Map<string, (at: number) => readonly Span[]>();
  for (const [key, spans] of spansOf(history, asks)) latest.set(key, latestBy(spans));
  return ofType(history, "refused").flatMap(({ ask: name, at, code }) => {
    const ask = asks.get(name);
    if (ask === undefined || code !== "busy") return [];
    const others = latest.get(ask.keys[0] as string)?.(at) ?? [];
    if (others.some((one) => one.ask !== name && one.to >= ask.at)) return [];
    const what = `${name} was told that ${ask.keys.join()} is busy, and nobody can have had it`;
    return [{ promise: "P17", at, what }];
  });
}

function spansOf(history: History, asks: ReadonlyMap<string, Ask>): Map<string, Span[]> {
  const { calm, abandonMs } = history.context;
  const until = new Map<string, number>();
  const askOf = new Map(beliefs(history).map(({ lease, ask }) => [lease, ask.ask]));
  for (const { ask, at, code } of ofType(history, "refused")) {
    // A waiter that gave up keeps its position until the store hears of it.
    if (code === "busy") until.set(ask, at);
    else if (calm) until.set(ask, at + abandonMs);
  }
  for (const { lease, at, answer } of ofType(history, "released")) {
    if (answer === true) until.set(askOf.get(lease) ?? "", at);
  }
  const spans = new Map<string, Span[]>();
  for (const { ask, at, keys } of asks.values()) {
    const key = keys[0] as string;
    const all = spans.get(key) ?? [];
    spans.set(key, all);
    all.push({ ask, from: at, to: until.get(ask) ?? Number.POSITIVE_INFINITY });
  }
  return spans;
}

/** Of the spans that begin by some moment, the two that end last: one of them may be the asker's own. */
function latestBy(spans: readonly Span[]): (at: number) => readonly Span[] {
  const sorted = [...spans].sort((a, b) => a.from - b.from);
  const tops: (readonly Span[])[] = [];
  for (const span of sorted) {
    const top = [...(tops.at(-1) ?? []), span].sort((a, b) => b.to - a.to);
    tops.push(top.slice(0, 2));
  }
  return (at) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sorted[middle] as Span).from <= at) low = middle + 1;
      else high = middle;
    }
    return tops[low - 1] ?? [];
  };
}

const compare = (a: bigint, b: bigint): number => Number(a > b) - Number(a < b);

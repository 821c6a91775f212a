// P1 at shutdown: nobody else gets the key of a running callback that has not been notified, although its
// client closes its locks.

import { type Ask, type Checker, type Granted, type History, ofType, type Violation } from "../history.ts";
import { stoppedMs } from "../stops.ts";

export const notified: Checker = (history) => {
  if (history.context.forgetful) return [];
  const closing = new Map(ofType(history, "closing").map((event) => [event.client, event.at]));
  if (closing.size === 0) return [];
  const asks = new Map(ofType(history, "ask").map((ask) => [ask.ask, ask]));
  const grants = ofType(history, "granted");
  return grants.flatMap((grant) => {
    const ask = asks.get(grant.ask) as Ask;
    const since = closing.get(grant.client);
    if (ask.callback !== true || since === undefined) return [];
    const [from, to] = [Math.max(since, grant.at), endOf(history, grant)];
    return (
      grants
        .filter((next) => next.client !== grant.client && next.at > from && next.at < to)
        .filter((next) => excludes(ask, asks.get(next.ask) as Ask))
        // A process that did not run cannot have been notified.
        .filter((next) => stoppedMs(history, grant.client, grant.at, next.at) === 0)
        .map((next) => violation(grant, next))
    );
  });
};

/** The callback has returned, was notified, or its process is gone. */
function endOf(history: History, { lease, client, at }: Granted): number {
  const end = history.events.find(
    (event) =>
      event.at >= at &&
      (((event.type === "notified" || event.type === "letting-go") && event.lease === lease) ||
        (event.type === "crashed" && event.client === client)),
  );
  return end?.at ?? Number.POSITIVE_INFINITY;
}

function excludes(a: Ask, b: Ask): boolean {
  if (!a.keys.some((key) => b.keys.includes(key))) return false;
  if (a.limit > 1 && b.limit > 1) return false;
  return a.mode === "exclusive" || b.mode === "exclusive";
}

function violation(grant: Granted, next: Granted): Violation {
  return {
    promise: "P1",
    at: next.at,
    what: `${next.client} got ${next.lease} while ${grant.client} ran unnotified under ${grant.lease}`,
  };
}

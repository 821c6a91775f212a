// P1 at shutdown: nobody else gets the key of a running callback that has not been notified, although its
// client closes its locks. P13: that takes no longer than its drain and a bound.

import {
  type Ask,
  type Checker,
  type ClientState,
  type Granted,
  type History,
  ofType,
  type Violation,
} from "../history.ts";
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

/** What `close` may take beyond its drain, on a store that answers nothing too. */
const CLOSE_MS = 2_000;

export const closeInTime: Checker = (history) => {
  const { slackMs } = history.context;
  return closings(history).flatMap(({ client, at, drainMs, tookMs }) => {
    const mostMs = drainMs + CLOSE_MS + slackMs;
    if (tookMs <= mostMs) return [];
    const took = tookMs === Number.POSITIVE_INFINITY ? "did not end" : `took ${tookMs.toFixed(1)} ms`;
    return [{ promise: "P13", at, what: `close of ${client} ${took} with a drain of ${drainMs} ms` }];
  });
};

export interface Closing {
  readonly client: string;
  readonly at: number;
  readonly drainMs: number;
  /** For which its process ran, until `close` resolved. */
  readonly tookMs: number;
}

/** Each `close` with a drain of its own, unless its process was killed meanwhile. */
export function closings(history: History): Closing[] {
  const ends = new Map(ofType(history, "closed", "crashed").map((event) => [event.client, event]));
  const over = ofType(history, "over").at(-1)?.at ?? Number.POSITIVE_INFINITY;
  return ofType(history, "closing").flatMap(({ client, at, drainMs }: ClientState) => {
    const end = ends.get(client);
    if (drainMs === undefined || end?.type === "crashed") return [];
    const stopped = stoppedMs(history, client, at, end?.at ?? over, history.context.machineStalls);
    const tookMs = end === undefined ? Number.POSITIVE_INFINITY : end.at - at - stopped;
    return [{ client, at, drainMs, tookMs }];
  });
}

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

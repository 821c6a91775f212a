// From when until when each holder believed that it held: the intervals that P1 speaks of.
// A belief starts when acquire resolved, is prolonged by confirmed renewals, and ends with the first of: release called,
// loss signalled, end of the last certain window, death.

import type { Ask, Granted, History } from "./history.ts";

export interface Belief {
  readonly lease: string;
  readonly client: string;
  readonly ask: Ask;
  readonly fences: readonly string[];
  readonly from: number;
  to: number;
  /** End of the last certain window, whatever happened before it. */
  windowEnd: number;
  ended: "released" | "lost" | "window" | "crashed";
}

const known = new WeakMap<History, Belief[]>();

export function beliefs(history: History): readonly Belief[] {
  const all = known.get(history) ?? read(history);
  known.set(history, all);
  return all;
}

function read(history: History): Belief[] {
  const asks = new Map<string, Ask>();
  const open = new Map<string, Belief>();
  const byClient = new Map<string, Set<Belief>>();
  const all: Belief[] = [];
  for (const event of history.events) {
    if (event.type === "ask") asks.set(event.ask, event);
    else if (event.type === "granted") {
      const belief = begin(event, asks.get(event.ask) as Ask);
      all.push(belief);
      open.set(event.lease, belief);
      const own = byClient.get(event.client) ?? new Set();
      byClient.set(event.client, own.add(belief));
    } else if (event.type === "renewed" || event.type === "believes") {
      const belief = open.get(event.lease);
      if (belief === undefined) continue;
      belief.windowEnd = event.at + (event.remainingMs ?? 0);
      belief.to = belief.windowEnd;
    } else if (event.type === "letting-go" || event.type === "lost") {
      end(open, event.lease, event.at, event.type === "lost" ? "lost" : "released");
    } else if (event.type === "crashed") {
      for (const belief of byClient.get(event.client) ?? []) {
        if (open.get(belief.lease) === belief) end(open, belief.lease, event.at, "crashed");
      }
    }
  }
  return all;
}

function begin(event: Granted, ask: Ask): Belief {
  const windowEnd = event.at + event.remainingMs;
  return {
    lease: event.lease,
    client: event.client,
    ask,
    fences: event.fences,
    from: event.at,
    to: windowEnd,
    windowEnd,
    ended: "window",
  };
}

function end(open: Map<string, Belief>, lease: string, at: number, how: Belief["ended"]): void {
  const belief = open.get(lease);
  if (belief === undefined) return;
  open.delete(lease);
  if (at >= belief.to) return;
  belief.to = at;
  belief.ended = how;
}

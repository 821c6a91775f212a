// When a client did not run: the spans between being stopped and going on, in the order in which they were written.

import { type History, ofType } from "./history.ts";

export type Span = readonly [from: number, to: number];

export function stops(history: History, client: string): Span[] {
  const spans: Span[] = [];
  let since: number | null = null;
  for (const event of ofType(history, "paused", "resumed")) {
    if (event.client !== client) continue;
    if (event.type === "paused") since ??= event.at;
    else if (since !== null) {
      spans.push([since, event.at]);
      since = null;
    }
  }
  return since === null ? spans : [...spans, [since, Number.POSITIVE_INFINITY]];
}

/** How long a client did not run between two moments. */
export function stoppedMs(history: History, client: string, from: number, to: number): number {
  return stops(history, client).reduce(
    (total, [start, end]) => total + Math.max(0, Math.min(to, end) - Math.max(from, start)),
    0,
  );
}

// When a client did not run: the spans between being stopped and going on, in the order in which they were written.

import { type History, ofType, type Span } from "./history.ts";

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

/** How long a client did not run between two moments; `others` are spans in which nobody did. What overlaps counts once. */
export function stoppedMs(
  history: History,
  client: string,
  from: number,
  to: number,
  others: readonly Span[] = [],
): number {
  let total = 0;
  let reached = from;
  for (const [start, end] of [...stops(history, client), ...others].sort((a, b) => a[0] - b[0])) {
    const since = Math.max(start, reached);
    const until = Math.min(to, end);
    if (until <= since) continue;
    total += until - since;
    reached = until;
  }
  return total;
}

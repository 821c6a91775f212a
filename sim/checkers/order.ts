// P12: grants follow the order in which the store acknowledged the waiters; only who was silent may be passed over.

import { type Checker, ofType, type Violation } from "../history.ts";

/** A little less than the share of its claim window within which a waiter must have been seen. */
const FRESH_SHARE = 0.45;

export const order: Checker = (history) => {
  if (!history.context.fifo || history.context.forgetful) return [];
  const violations: Violation[] = [];
  const lines = new Map<string, Map<string, { seen: number; claimMs: number }>>();
  for (const event of ofType(history, "store-seated", "store-beat", "store-unseated", "store-holds")) {
    const line = lines.get(event.key) ?? new Map<string, { seen: number; claimMs: number }>();
    lines.set(event.key, line);
    if (event.type === "store-seated")
      line.set(event.id, { seen: event.at, claimMs: event.claimMs ?? history.context.claimMs });
    else if (event.type === "store-beat") {
      const place = line.get(event.id);
      if (place !== undefined) place.seen = event.at;
    } else if (event.type === "store-unseated") line.delete(event.id);
    else if (line.has(event.id)) {
      const overtaken = [...line].find(
        ([id, place]) => id === event.id || event.at - place.seen < place.claimMs * FRESH_SHARE,
      );
      if (overtaken !== undefined && overtaken[0] !== event.id) {
        violations.push({
          promise: "P12",
          at: event.at,
          what: `${event.key}: ${event.id.slice(0, 6)} was granted before ${overtaken[0].slice(0, 6)}, which came first and was alive`,
        });
      }
      line.delete(event.id);
    }
  }
  return violations;
};

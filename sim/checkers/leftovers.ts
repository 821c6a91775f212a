// P16: after everybody has closed and every lease must be over, nothing is left.

import { type Checker, ofType } from "../history.ts";

export const leftovers: Checker = (history) =>
  ofType(history, "left-over").map((event) => ({ promise: "P16", at: event.at, what: event.what }));

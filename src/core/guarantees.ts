// Rejects requests for kinds of locks that the store's guarantees do not include.

import { UnsupportedError } from "./errors.ts";
import type { Guarantees, Kind } from "./store.ts";

/** Throws before anything is sent to the store. */
export function requireKind(storeName: string, guarantees: Guarantees, kind: Kind, key: string): void {
  if (guarantees.kinds.includes(kind)) return;
  throw new UnsupportedError(
    `the ${storeName} store has no locks of kind ${kind}: ` +
      `it supports ${guarantees.kinds.join(", ")}. Use another store`,
    { key },
  );
}

// Rejects requests for kinds of locks that the store's guarantees do not include.

import { UnsupportedError } from "./errors.ts";
import type { Guarantees, Kind } from "./store.ts";

/** Refuses what a store does not declare, by name, before anything is sent to it. */
export function requireKind(storeName: string, guarantees: Guarantees, kind: Kind, key: string): void {
  if (guarantees.kinds.includes(kind)) return;
  throw new UnsupportedError(
    `the ${storeName} store cannot do ${kind}: it declares ${guarantees.kinds.join(", ")}`,
    { key },
  );
}

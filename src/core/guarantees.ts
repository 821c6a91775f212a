// The three sentences that core, documentation and command derive from a store's guarantees.

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

/** When the key of a killed holder is free again. */
export function freeAfterCrashMs(guarantees: Guarantees, ttlMs: number, graceMs: number): number {
  return guarantees.freeAfterCrashMs === "lease" ? ttlMs + graceMs : guarantees.freeAfterCrashMs;
}

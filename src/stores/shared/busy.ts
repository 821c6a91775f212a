// A "busy" answer of a store that knows all holders. It shows three of them, because a semaphore may have
// thousands.

import type { Busy, HolderInfo } from "../../core/store.ts";

const SHOWN_HOLDERS = 3;

/** `show` describes one of `holders` to the caller. */
export function toBusy<Holder>(
  holders: readonly Holder[],
  show: (holder: Holder) => HolderInfo,
  againMs: number,
): Busy {
  return { againMs, holders: holders.slice(0, SHOWN_HOLDERS).map(show), holderCount: holders.length };
}

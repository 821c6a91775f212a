// The `busy` answer of a store that knows all holders. It contains three of them at most, because a
// semaphore may have thousands.

import type { Busy, HolderInfo } from "../../core/store.ts";

const SHOWN_HOLDERS = 3;

/** `show` converts a holder of the store into a `HolderInfo`. */
export function toBusy<Holder>(
  holders: readonly Holder[],
  show: (holder: Holder) => HolderInfo,
  againMs: number,
): Busy {
  return { againMs, holders: holders.slice(0, SHOWN_HOLDERS).map(show), holderCount: holders.length };
}

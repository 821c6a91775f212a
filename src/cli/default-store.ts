// Who named no store gets locks of this user on this machine. Where that is likely to be a mistake, it is
// said.

import { isContainer, type Machine } from "../stores/local/machine.ts";

/**
 * null where the default store does what people expect. `userId` is null on a system without users of that
 * kind.
 */
export function defaultStoreWarning(machine: Machine, userId: number | null): string | null {
  const scope = isContainer(machine)
    ? "the processes of this container"
    : userId === 0
      ? "the processes of root on this machine"
      : null;
  if (scope === null) return null;
  const what = `no store is named, so the lock is between ${scope} alone`;
  return `${what}. Name one with --store, or say --store local:`;
}

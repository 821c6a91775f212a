// Without --store, the locks are those of this user on this machine. Warns where that is likely a mistake.

import { isContainer, type Machine } from "../stores/local/machine.ts";

/** Null if no warning is needed. `userId` is null on a system without numeric user ids. */
export function defaultStoreWarning(machine: Machine, userId: number | null): string | null {
  const scope = isContainer(machine)
    ? "the processes of this container"
    : userId === 0
      ? "the processes of root on this machine"
      : null;
  if (scope === null) return null;
  return (
    `without --store, only ${scope} share locks. ` +
    "Give the URL of a store, or --store local: to hide this warning"
  );
}

// Calls for a key that the caller's own chain of actors already holds. Waiting would never end, so the
// call enters again with `reentrant`, and rejects with DeadlockError without it. A call for more permits
// of a semaphore waits as usual if enough permits can become free.

import type { Actor } from "./actor.ts";
import { DeadlockError } from "../errors.ts";
import { showKey } from "../key.ts";
import type { HeldLease } from "./lease.ts";
import type { AcquireSpec } from "../options.ts";

/** null: the chain holds none of the keys, so ask the store. Leases: enter them again. */
export type Entry = readonly HeldLease[] | DeadlockError | null;

/** The leases of the chain in one open store. Equal keys of different stores are different locks. */
export function ownSections(actor: Actor, owner: HeldLease["owner"]): HeldLease[] {
  return actor.sections().filter((section) => section.owner === owner);
}

export function entry(own: readonly HeldLease[], keys: readonly string[], spec: AcquireSpec): Entry {
  const held = own.filter((section) => section.keys.some((key) => keys.includes(key)));
  if (held.length === 0) return null;
  const other = held.find((section) => section.spec.limit > 1 !== spec.limit > 1);
  if (other !== undefined) {
    const [kind, asked] = spec.limit > 1 ? ["lock", "semaphore"] : ["semaphore", "lock"];
    const why = `is already held by the same actor as a ${kind}, which excludes a ${asked}`;
    return refusal(other, keys, spec, `${why}, so waiting for it would never end. Release it first`);
  }
  return spec.limit > 1 ? semaphoreEntry(held, keys, spec) : lockEntry(held, keys, spec);
}

function lockEntry(held: readonly HeldLease[], keys: readonly string[], spec: AcquireSpec): Entry {
  const [first] = held as [HeldLease];
  const reader = held.find((section) => section.mode === "shared");
  if (spec.mode === "exclusive" && reader !== undefined) {
    return refusal(
      reader,
      keys,
      spec,
      "is already held by the same actor with a shared lease, so waiting for an exclusive one would never end. " +
        "Release the shared lease first, or acquire the exclusive one from the start",
    );
  }
  if (!spec.reentrant || spec.keepMs > 0) {
    return refusal(
      first,
      keys,
      spec,
      "is already held by the same actor, so waiting for it would never end. " +
        "Use its lease, pass reentrant: true, or acquire the key outside of that scope",
    );
  }
  if (keys.every((key) => held.some((section) => section.keys.includes(key)))) {
    return held.filter((section, i) => addsAKey(section, held.slice(0, i), keys));
  }
  return refusal(
    first,
    keys,
    spec,
    "is already held by the same actor, but others of these keys are not. " +
      "Acquire only the missing keys, or all of them from the start",
  );
}

function semaphoreEntry(held: readonly HeldLease[], keys: readonly string[], spec: AcquireSpec): Entry {
  if (spec.reentrant && spec.keepMs === 0) {
    const wide = held.filter((section) => section.spec.permits >= spec.permits);
    if (keys.every((key) => wide.some((section) => section.keys.includes(key)))) {
      return wide.filter((section, i) => addsAKey(section, wide.slice(0, i), keys));
    }
  }
  for (const key of keys) {
    const own = held.filter((section) => section.keys.includes(key));
    const permits = own.reduce((sum, section) => sum + section.spec.permits, 0);
    if (permits + spec.permits <= spec.limit) continue;
    const why = `has ${spec.limit} permits for this call, and the same actor holds ${permits} of them`;
    const more =
      `waiting for ${spec.permits} more would never end. ` +
      "Acquire all permits in one call, or release some first";
    return refusal(own[0] as HeldLease, [key], spec, `${why}, so ${more}`);
  }
  return null;
}

function addsAKey(section: HeldLease, before: readonly HeldLease[], keys: readonly string[]): boolean {
  return keys.some((key) => section.keys.includes(key) && !before.some((other) => other.keys.includes(key)));
}

function refusal(own: HeldLease, keys: readonly string[], spec: AcquireSpec, why: string): DeadlockError {
  const key = own.keys.find((one) => keys.includes(one)) as string;
  return new DeadlockError(`${showKey(key)} ${why} (held by ${own.label})`, {
    key,
    cycle: [{ label: spec.label, holds: key, waitsFor: key }],
  });
}

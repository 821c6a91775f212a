// Acquires several keys on a store that cannot take them in one step: one after another, in the canonical
// order that every process uses, under one deadline. If one fails, all of them are released (P9).

import type { HeldLease } from "../lease/lease.ts";

export async function acquireEach(
  keys: readonly string[],
  acquireOne: (key: string) => Promise<HeldLease>,
): Promise<HeldLease[]> {
  const leases: HeldLease[] = [];
  try {
    for (const key of keys) leases.push(await acquireOne(key));
    for (const lease of leases) lease.assertHeld();
    return leases;
  } catch (error) {
    await giveBackAll(leases);
    throw error;
  }
}

/** As `acquireEach`, without waiting. If a key is busy, it releases the others and returns null. */
export async function tryEach(
  keys: readonly string[],
  tryOne: (key: string) => Promise<HeldLease | null>,
): Promise<HeldLease[] | null> {
  const leases: HeldLease[] = [];
  try {
    for (const key of keys) {
      const lease = await tryOne(key);
      if (lease === null) {
        await giveBackAll(leases);
        return null;
      }
      leases.push(lease);
    }
    for (const lease of leases) lease.assertHeld();
    return leases;
  } catch (error) {
    await giveBackAll(leases);
    throw error;
  }
}

async function giveBackAll(leases: readonly HeldLease[]): Promise<void> {
  // A failed release is abandoned in the background, and its key expires with its ttl.
  await Promise.allSettled(leases.map((lease) => lease.release()));
}

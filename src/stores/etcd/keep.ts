// Records that outlive their holder: a second name beside the holder's, on a lease of its own that nobody renews. It is
// written once it is the holder's turn and before anybody is told, so a grant that was told is always kept.
// The lease is asked for beforehand, at the same time as the place.

import type { Claim, Kept } from "./claims.ts";
import type { Deps } from "./deps.ts";
import { createdAt, keptNames, ownNames } from "./line.ts";
import type { Patience } from "./port.ts";
import { fenceOf, newWords } from "./record.ts";

/** Asks for the lease of what may have to be kept. */
export async function prepareKeep(claim: Claim, { leases }: Deps, io: Patience): Promise<void> {
  if (claim.request.keepMs === 0 || claim.keepLease !== null) return;
  claim.keepLease = await leases.grant(Math.ceil(claim.request.keepMs / 1_000), io);
}

/** It is not needed after all. Should nobody hear of that, it ends by itself. */
export function forgetKeep(claim: Claim, { leases }: Deps, io: Patience): void {
  if (claim.keepLease !== null && claim.kept === null) leases.revoke(claim.keepLease, io).catch(() => {});
}

/** Null when the holder's own place is gone. */
export async function keep(claim: Claim, revision: number, deps: Deps, io: Patience): Promise<Kept | null> {
  const { port, names, leases, system, proc } = deps;
  const { request } = claim;
  // One that waited for long may have outlived it.
  if (claim.keepLease !== null && leases.leftMs(claim.keepLease, system.now()) <= 0) claim.keepLease = null;
  await prepareKeep(claim, deps, io);
  const lease = claim.keepLease;
  if (lease === null) return null;
  const sinceMs = Math.round(system.wallMs());
  const value = JSON.stringify({ ...newWords(request, proc, sinceMs), fence: String(fenceOf(revision)) });
  const { succeeded } = await port.txn(
    {
      compare: ownNames(names, request).map((key) => createdAt(key, revision)),
      success: keptNames(names, request).map((key) => ({ put: { key, value, lease: lease.id } })),
    },
    io,
  );
  if (!succeeded) return null;
  const now = system.now();
  // The time counts from the grant, which is told after this.
  if (leases.leftMs(lease, now) < request.keepMs) await leases.beat(lease, now, io);
  return { lease, overAtMs: system.monoMs() + request.keepMs };
}

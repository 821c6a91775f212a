// Records that outlive their holder (`keepMs`): a second key beside the holder's, on a lease of its own that
// nobody renews. It is written when the request holds and before the grant is reported, so every reported
// grant is kept. The lease is granted ahead of time, together with the queue key.

import type { CallSignal } from "./cluster/member.ts";
import { wasCreatedAt } from "./queue-rules.ts";
import { fenceOf, newDetails } from "./record.ts";
import type { MinHold, OpenRequest, StoreContext } from "./requests.ts";

export async function prepareMinHold(
  open: OpenRequest,
  { leases }: StoreContext,
  io: CallSignal,
): Promise<void> {
  if (open.request.keepMs === 0 || open.minHoldLease !== null) return;
  open.minHoldLease = await leases.grant(Math.ceil(open.request.keepMs / 1_000), io);
}

/** There was no grant. If the revocation of the lease is lost, the lease expires. */
export function cancelMinHold(open: OpenRequest, { leases }: StoreContext, io: CallSignal): void {
  if (open.minHoldLease !== null && open.minHold === null)
    leases.revoke(open.minHoldLease, io).catch(() => {});
}

/** Null if the holder's own key is gone. */
export async function startMinHold(
  open: OpenRequest,
  revision: number,
  context: StoreContext,
  io: CallSignal,
): Promise<MinHold | null> {
  const { client, keys, leases, system, storeId } = context;
  const { request } = open;
  // A request that waited for long may have outlived the lease.
  if (open.minHoldLease !== null && leases.leftMs(open.minHoldLease, system.now()) <= 0)
    open.minHoldLease = null;
  await prepareMinHold(open, context, io);
  const lease = open.minHoldLease;
  if (lease === null) return null;
  const details = newDetails(request, storeId, Math.round(system.wallMs()));
  const value = JSON.stringify({ ...details, fence: String(fenceOf(revision)) });
  const { succeeded } = await client.txn(
    {
      compare: keys.ofRequest(request).map((key) => wasCreatedAt(key, revision)),
      success: keys.keptOfRequest(request).map((key) => ({ put: { key, value, lease: lease.id } })),
    },
    io,
  );
  if (!succeeded) return null;
  const now = system.now();
  // The time counts from the grant, which is reported after this.
  if (leases.leftMs(lease, now) < request.keepMs) await leases.keepAlive(lease, now, io);
  return { lease, endsAtMs: system.monoMs() + request.keepMs };
}

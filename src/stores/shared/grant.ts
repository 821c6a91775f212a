// Converts a grant of the ledger into a grant of the store contract.

import type { Grant } from "../../core/store.ts";

export interface LedgerGrant {
  readonly fences: readonly number[];
  readonly room: number;
  readonly validMs: number;
}

export function toGrant(grant: LedgerGrant): Grant<null> {
  return {
    fences: grant.fences.map(BigInt),
    reservedFences: grant.room,
    validMs: grant.validMs,
    cookie: null,
  };
}

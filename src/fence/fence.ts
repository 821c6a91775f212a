// The fence that a caller passes to a guard: a lease or a number. Guards accept exclusive leases only (P4).
// Several readers or permit holders may act at the same time, so a smaller fence among them is not stale.

import type { MultiLease } from "../core/api.ts";
import { InvalidArgumentError, StaleFenceError, UnsafeStoreError, UnsupportedError } from "../core/errors.ts";
import { showKey } from "../core/key.ts";

/** A lease, or its fence as a number. For a lease of several keys, name the key with the option `lock`. */
export type Fence = MultiLease | bigint;

/** Fits a signed column of 64 bits. */
const MAX_FENCE = 2n ** 63n - 1n;

/** The fence as a number. For a lease of several keys it is the fence of `key`. */
export function fenceOf(fence: Fence, key?: string): bigint {
  if (typeof fence === "bigint") return inRange(fence);
  if (!isLease(fence)) {
    throw new InvalidArgumentError(`fence must be a lease or a bigint, got ${typeof fence}`);
  }
  const limit = Number(fence.toJSON()["limit"] ?? 1);
  if (fence.mode !== "exclusive" || limit > 1) {
    const what = limit > 1 ? `a semaphore of ${limit} permits` : "shared";
    throw new UnsupportedError(
      `the lease of a guard must be exclusive, got ${what} for ${showKey(fence.key)}: ` +
        "other holders may act at the same time, so no fence is stale",
      { key: fence.key },
    );
  }
  if (fence.keys.length === 1) return fence.fenceOf(fence.key);
  if (key !== undefined) return fence.fenceOf(key);
  throw new InvalidArgumentError(
    `lock must name one of the ${fence.keys.length} keys of the lease, because each has its own fence: ` +
      "pass the option lock, or fenceOf(key)",
    { key: fence.key },
  );
}

export function inRange(fence: bigint): bigint {
  if (fence > 0n && fence <= MAX_FENCE) return fence;
  throw new InvalidArgumentError(`fence must be from 1 to ${MAX_FENCE}, got ${fence}`);
}

export function staleError(
  what: string,
  key: string | undefined,
  fence: bigint,
  seen: bigint,
): StaleFenceError {
  return new StaleFenceError(
    `fence ${fence} is stale for ${what}, which has already accepted fence ${seen} of a later holder. ` +
      "Stop, and change nothing that the lock protects",
    { key, fence, seen },
  );
}

/** Parses a stored fence. */
export function readFence(what: string, key: string | undefined, text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw new UnsafeStoreError(
    `the stored fence of ${what} must be a number, got ${JSON.stringify(text.slice(0, 40))}`,
    {
      key,
      setting: "fence",
      fix: "write the largest fence that was used there; delete it only if no earlier holder is still running",
    },
  );
}

/** Checks the shape, not the class: two copies of this package have two classes. */
function isLease(value: unknown): value is MultiLease {
  const lease = value as Partial<MultiLease> | null;
  return (
    typeof lease === "object" &&
    lease !== null &&
    typeof lease.toJSON === "function" &&
    typeof lease.fenceOf === "function" &&
    Array.isArray(lease.keys)
  );
}

// What a guard is given: a lease, or its fence as a number. Guards are for exclusive leases (P4): of readers, and of holders of
// permits, several are right at once, and the largest fence among them says nothing about the others.

import type { MultiLease } from "../core/api.ts";
import { InvalidArgumentError, StaleFenceError, UnsafeStoreError, UnsupportedError } from "../core/errors.ts";
import { showKey } from "../core/key.ts";

/** A lease of several keys needs the key whose fence is meant. */
export type Fence = MultiLease | bigint;

/** Fits a signed column of 64 bits. */
const MAX_FENCE = 2n ** 63n - 1n;

/** The number; of a lease of several keys the one of `key`. */
export function fenceOf(fence: Fence, key?: string): bigint {
  if (typeof fence === "bigint") return inRange(fence);
  if (!isLease(fence)) {
    throw new InvalidArgumentError("the fence of a guard is a lease or a bigint");
  }
  const limit = Number(fence.toJSON()["limit"] ?? 1);
  if (fence.mode !== "exclusive" || limit > 1) {
    const what = limit > 1 ? `one of ${limit} permits` : "shared";
    throw new UnsupportedError(
      `the lease of ${showKey(fence.key)} is ${what}, so others hold it rightly at the same time: a guard can only tell exclusive holders apart`,
      { key: fence.key },
    );
  }
  if (fence.keys.length === 1) return fence.fenceOf(fence.key);
  if (key !== undefined) return fence.fenceOf(key);
  throw new InvalidArgumentError(
    `the lease is of ${fence.keys.length} keys and each has its own fence: name the key, or use fenceOf(key)`,
    { key: fence.key },
  );
}

export function inRange(fence: bigint): bigint {
  if (fence > 0n && fence <= MAX_FENCE) return fence;
  throw new InvalidArgumentError(`${fence} is no fence: fences are above 0 and fit a signed 64-bit number`);
}

export function staleError(
  what: string,
  key: string | undefined,
  fence: bigint,
  seen: bigint,
): StaleFenceError {
  return new StaleFenceError(
    `fence ${fence} came too late for ${what}, which has let through fence ${seen}: a later holder is at work. Stop, and touch nothing that the lock protects`,
    { key, fence, seen },
  );
}

/** What is stored as a fence, or an error that says that it is none. */
export function readFence(what: string, key: string | undefined, text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw new UnsafeStoreError(
    `the fence of ${what} is damaged: ${JSON.stringify(text.slice(0, 40))} is no number`,
    {
      key,
      setting: "fence",
      fix: "write the largest fence that was used there; delete it only when no older holder can be at work",
    },
  );
}

/** By its shape: two copies of this package have two classes. */
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

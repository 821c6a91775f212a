// Compares two successive lists of locks: which keys were acquired, released or revoked, and how many
// requests wait. Changes between the two lists stay unseen. A lease that was handed off shows as a new fence.

import type { HolderInfo, LockInfo } from "../surface.ts";

export type Change =
  | { readonly change: "held"; readonly key: string; readonly label: string; readonly fence: string }
  | {
      readonly change: "released";
      readonly key: string;
      readonly label: string;
      readonly fence: string;
      readonly heldMs: number;
    }
  | { readonly change: "waiting"; readonly key: string; readonly waiters: number }
  | { readonly change: "revoked"; readonly key: string; readonly label: string; readonly reason: string };

/** The activity of a key is the number of grants and waiters seen. Each list takes a tenth of it away. */
const DECAY = 0.9;
const LEAST_ACTIVITY = 0.05;

export class LockDiff {
  #before = new Map<string, LockInfo>();
  readonly #activity = new Map<string, number>();

  /** Returns the changes since the previous call. */
  update(locks: readonly LockInfo[]): Change[] {
    const now = new Map(locks.map((info) => [info.key, info]));
    const keys = new Set([...this.#before.keys(), ...now.keys()]);
    const changes = [...keys].flatMap((key) => compare(key, this.#before.get(key), now.get(key)));
    this.#before = now;
    this.#countActivity(changes, locks);
    return changes;
  }

  activityOf(key: string): number {
    return this.#activity.get(key) ?? 0;
  }

  #countActivity(changes: readonly Change[], locks: readonly LockInfo[]): void {
    for (const [key, activity] of this.#activity) {
      if (activity < LEAST_ACTIVITY) this.#activity.delete(key);
      else this.#activity.set(key, activity * DECAY);
    }
    const add = (key: string, more: number): void =>
      void this.#activity.set(key, this.activityOf(key) + more);
    for (const change of changes) if (change.change === "held") add(change.key, 1);
    for (const { key, waiters } of locks)
      if (waiters !== null && waiters.length > 0) add(key, waiters.length);
  }
}

function compare(key: string, before: LockInfo | undefined, now: LockInfo | undefined): Change[] {
  const [old, held] = [byFence(before), byFence(now)];
  const released = [...old.values()].filter(({ fence }) => !held.has(fence));
  const acquired = [...held.values()].filter(({ fence }) => !old.has(fence));
  const waiters = now?.waiters?.length ?? 0;
  const revoked = [...held.values()].filter(
    (holder) => holder.revoked !== undefined && old.get(holder.fence)?.revoked === undefined,
  );
  return [
    ...released.map(({ label, fence, heldMs }) => ({
      change: "released" as const,
      key,
      label,
      fence: String(fence),
      heldMs: Math.round(heldMs),
    })),
    ...acquired.map(({ label, fence }) => ({ change: "held" as const, key, label, fence: String(fence) })),
    ...revoked.map(({ label, revoked: reason = "" }) => ({ change: "revoked" as const, key, label, reason })),
    ...(waiters === (before?.waiters?.length ?? 0) ? [] : [{ change: "waiting" as const, key, waiters }]),
  ];
}

function byFence(info: LockInfo | undefined): ReadonlyMap<bigint, HolderInfo> {
  return new Map((info?.holders ?? []).map((holder) => [holder.fence, holder]));
}

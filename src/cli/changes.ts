// What is different from the last look: who has got a key, who has let go of it, who began to wait. Between
// two looks more can have happened than can be seen; a key that was handed on shows as a new fence.

import type { HolderInfo, LockInfo } from "../surface.ts";

export type Change =
  | { readonly change: "held"; readonly key: string; readonly label: string; readonly fence: string }
  | {
      readonly change: "let-go";
      readonly key: string;
      readonly label: string;
      readonly fence: string;
      readonly heldMs: number;
    }
  | { readonly change: "waiting"; readonly key: string; readonly waiters: number }
  | { readonly change: "revoked"; readonly key: string; readonly label: string; readonly reason: string };

/** Grants seen count for the heat of a key; each look takes a tenth of it away. */
const COOLING = 0.9;
const COLD = 0.05;

export class Changes {
  #before = new Map<string, LockInfo>();
  readonly #heat = new Map<string, number>();

  since(seen: readonly LockInfo[]): Change[] {
    const now = new Map(seen.map((info) => [info.key, info]));
    const keys = new Set([...this.#before.keys(), ...now.keys()]);
    const changes = [...keys].flatMap((key) => changed(key, this.#before.get(key), now.get(key)));
    this.#before = now;
    this.#warm(changes, seen);
    return changes;
  }

  /** How much is going on at a key: waiters that stand there, and grants that were seen. */
  heatOf(key: string): number {
    return this.#heat.get(key) ?? 0;
  }

  #warm(changes: readonly Change[], seen: readonly LockInfo[]): void {
    for (const [key, heat] of this.#heat) {
      if (heat < COLD) this.#heat.delete(key);
      else this.#heat.set(key, heat * COOLING);
    }
    const add = (key: string, more: number): void => void this.#heat.set(key, this.heatOf(key) + more);
    for (const change of changes) if (change.change === "held") add(change.key, 1);
    for (const { key, waiters } of seen) if (waiters !== null && waiters.length > 0) add(key, waiters.length);
  }
}

function changed(key: string, before: LockInfo | undefined, now: LockInfo | undefined): Change[] {
  const [old, held] = [byFence(before), byFence(now)];
  const gone = [...old.values()].filter(({ fence }) => !held.has(fence));
  const come = [...held.values()].filter(({ fence }) => !old.has(fence));
  const waiters = now?.waiters?.length ?? 0;
  const told = [...held.values()].filter(
    ({ fence, revoked }) => revoked !== undefined && old.get(fence)?.revoked === undefined,
  );
  return [
    ...gone.map(({ label, fence, heldMs }) => ({
      change: "let-go" as const,
      key,
      label,
      fence: String(fence),
      heldMs: Math.round(heldMs),
    })),
    ...come.map(({ label, fence }) => ({ change: "held" as const, key, label, fence: String(fence) })),
    ...told.map(({ label, revoked = "" }) => ({ change: "revoked" as const, key, label, reason: revoked })),
    ...(waiters === (before?.waiters?.length ?? 0) ? [] : [{ change: "waiting" as const, key, waiters }]),
  ];
}

function byFence(info: LockInfo | undefined): ReadonlyMap<bigint, HolderInfo> {
  return new Map((info?.holders ?? []).map((holder) => [holder.fence, holder]));
}

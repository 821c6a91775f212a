// What nodes tell of a key, put together: a holder is who a majority knows as such, and so is a waiter. What one node thinks is
// shown beside it.

import type { NodeReason } from "../../core/errors.ts";
import type { HolderInfo, LockInfo, WaiterInfo } from "../../core/store.ts";
import type { Fleet } from "./fleet.ts";
import type { Vote } from "./quorum.ts";
import { type Held, type Look, outWords, type View } from "./words.ts";

/** `at`: which of the keys that were asked for. null where it is free. */
export function lockInfo(
  fleet: Fleet,
  key: string,
  votes: readonly Vote<Look>[],
  at: number,
): LockInfo | null {
  const views = votes.flatMap((vote) => (vote.state === "answered" ? (vote.answer.views[at] ?? []) : []));
  const needed = fleet.majority - (votes.length - views.length);
  const holders = held(views, needed);
  const waiters = waiting(views, needed);
  if (holders.length === 0 && waiters.length === 0) return null;
  return { key, limit: 1, holders, waiters, nodes: perNode(fleet, votes, at) };
}

function held(views: readonly View[], needed: number): HolderInfo[] {
  const byFence = new Map<number, Held[]>();
  for (const { holder } of views) {
    if (holder !== null) byFence.set(holder.fence, [...(byFence.get(holder.fence) ?? []), holder]);
  }
  const most = [...byFence.values()].sort((a, b) => b.length - a.length)[0];
  if (most === undefined || most.length < needed) return [];
  // The number in use is told to the nodes one after the other; of the rest the most careful figure.
  const fence = most.reduce((top, { info }) => (info.fence > top ? info.fence : top), 0n);
  const [{ info }] = [...most].sort((a, b) => a.info.remainingMs - b.info.remainingMs) as [Held];
  const told = most.find(({ info: one }) => one.waitingFor !== undefined || one.revoked !== undefined)?.info;
  return [{ ...info, ...told, remainingMs: info.remainingMs, fence }];
}

function waiting(views: readonly View[], needed: number): WaiterInfo[] {
  const byLabel = new Map<string, { count: number; waitedMs: number }>();
  for (const { waiters } of views) {
    const seen = new Map<string, number>();
    for (const { label, waitedMs } of waiters) {
      // Two of the same label are told apart by their number.
      const nth = (seen.get(label) ?? 0) + 1;
      seen.set(label, nth);
      const name = `${nth} ${label}`;
      const before = byLabel.get(name);
      byLabel.set(name, {
        count: (before?.count ?? 0) + 1,
        waitedMs: Math.max(before?.waitedMs ?? 0, waitedMs),
      });
    }
  }
  return [...byLabel]
    .filter(([, { count }]) => count >= needed)
    .map(([name, { waitedMs }]) => ({
      label: name.slice(name.indexOf(" ") + 1),
      mode: "exclusive" as const,
      permits: 1,
      waitedMs,
    }));
}

function perNode(fleet: Fleet, votes: readonly Vote<Look>[], at: number): NodeReason[] {
  return fleet.reasons(votes, ({ out, views }) => {
    const holder = views[at]?.holder ?? null;
    const state =
      holder === null ? "has it free" : `has it held by ${holder.info.label} with fence ${holder.info.fence}`;
    return out === null ? state : `${state}, but does not vote: ${outWords(out)}`;
  });
}

// Merges what the nodes know of keys. A request holds a key, or waits for it, if a majority knows it so. What
// each node knows is shown beside it. A list takes the keys that any node has, a page at a time.

import type { HolderInfo, Io, LockInfo, NodeReason, WaiterInfo } from "../../core/store.ts";
import { escapeGlob, type RedisKeys } from "../redis/commands/keys.ts";
import { listOf, textOf } from "../redis/client/port.ts";
import { quorumError, reasonOf } from "./errors.ts";
import type { Node } from "./node.ts";
import type { NodeSet } from "./node-set.ts";
import type { Vote } from "./quorum-call.ts";
import { describeNotVoting, type Held, type Inspection, type View } from "./script-replies.ts";

const LISTED_AT_ONCE = 100;

export async function* listLocks(
  nodeSet: NodeSet,
  names: RedisKeys,
  options: { readonly prefix: string; readonly limit: number },
  io: Io,
  inspect: (keys: readonly string[]) => Promise<readonly LockInfo[]>,
): AsyncIterable<LockInfo> {
  const seen = new Set<string>();
  const failed = new Map<Node, unknown>();
  let left = options.limit;
  // A lock that a majority knows is on at least one of so many nodes.
  let scanned = 0;
  // Suspect nodes are asked last, only where the others are too few.
  for (const node of nodeSet.nodes.toSorted((a, b) => Number(a.isSuspect) - Number(b.isSuspect))) {
    if (scanned > nodeSet.nodes.length - nodeSet.majority) return;
    try {
      for await (const keys of pages(node, names, options.prefix, io)) {
        const fresh = keys.filter((key) => !seen.has(key));
        for (const key of fresh) seen.add(key);
        for (const info of fresh.length === 0 ? [] : await inspect(fresh)) {
          if (left <= 0) return;
          left -= 1;
          yield info;
        }
      }
      scanned += 1;
    } catch (error) {
      failed.set(node, error);
    }
  }
  if (scanned > nodeSet.nodes.length - nodeSet.majority) return;
  const reasons = nodeSet.nodes.map((node) => ({
    node: node.name,
    reason: failed.has(node) ? `failed: ${reasonOf(failed.get(node))}` : "answered",
  }));
  throw quorumError("list", undefined, reasons, nodeSet.majority);
}

async function* pages(node: Node, names: RedisKeys, prefix: string, io: Io): AsyncIterable<string[]> {
  const own = node.port?.keyPrefix ?? "";
  const pattern = escapeGlob(own) + names.pattern(prefix);
  let cursor = "0";
  do {
    const words = ["SCAN", cursor, "MATCH", pattern, "COUNT", String(LISTED_AT_ONCE)];
    const [next, found] = listOf(await node.send(words, io));
    cursor = textOf(next);
    yield listOf(found)
      .map((name) => names.key(textOf(name).slice(own.length)))
      .filter((key) => key !== null);
  } while (cursor !== "0");
}

/** `at`: which of the keys that were asked for. null where it is free. */
export function lockInfo(
  nodeSet: NodeSet,
  key: string,
  votes: readonly Vote<Inspection>[],
  at: number,
): LockInfo | null {
  const views = votes
    .flatMap((vote) => (vote.state === "answered" ? (vote.answer.views[at] ?? []) : []))
    .filter(({ failure }) => failure === null);
  const needed = nodeSet.majority - (votes.length - views.length);
  const holders = holdersOf(views, needed);
  const waiters = waitersOf(views, needed);
  if (holders.length === 0 && waiters.length === 0) return null;
  return { key, limit: 1, holders, waiters, nodes: describeNodes(nodeSet, votes, at) };
}

function holdersOf(views: readonly View[], needed: number): HolderInfo[] {
  const byFence = new Map<number, Held[]>();
  for (const { holder } of views) {
    if (holder !== null) byFence.set(holder.fence, [...(byFence.get(holder.fence) ?? []), holder]);
  }
  const most = [...byFence.values()].sort((a, b) => b.length - a.length)[0];
  if (most === undefined || most.length < needed) return [];
  // Nodes learn the number in use one after the other. Of the rest, the most careful figure counts.
  const fence = most.reduce((top, { info }) => (info.fence > top ? info.fence : top), 0n);
  const [{ info }] = [...most].sort((a, b) => a.info.remainingMs - b.info.remainingMs) as [Held];
  const noted = most.find(({ info: one }) => one.waitingFor !== undefined || one.revoked !== undefined)?.info;
  return [{ ...info, ...noted, remainingMs: info.remainingMs, fence }];
}

function waitersOf(views: readonly View[], needed: number): WaiterInfo[] {
  const byLabel = new Map<string, { count: number; waitedMs: number }>();
  for (const { waiters } of views) {
    const seen = new Map<string, number>();
    for (const { label, waitedMs } of waiters) {
      // Two of the same label have different numbers.
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

function describeNodes(nodeSet: NodeSet, votes: readonly Vote<Inspection>[], at: number): NodeReason[] {
  return nodeSet.reasons(votes, ({ notVoting, views }) => {
    const { failure = null, holder = null } = views[at] ?? {};
    if (failure !== null) return failure;
    const state =
      holder === null ? "has it free" : `has it held by ${holder.info.label} with fence ${holder.info.fence}`;
    return notVoting === null ? state : `${state}, but does not vote: ${describeNotVoting(notVoting)}`;
  });
}

// Are these nodes safe to lock on (P19)? Each is asked for its settings, and all of them for the time at the
// same moment.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { Finding, Io } from "../../core/store.ts";
import { type Info, parseInfo, type ClockReading, readClock } from "../redis/topology/server-info.ts";
import { textOf } from "../redis/client/port.ts";
import { EVICTION_FIX } from "../shared/eviction.ts";
import { reasonOf } from "./errors.ts";
import type { NodeSet } from "./node-set.ts";
import { absenceFinding, type Membership } from "./membership.ts";
import type { Node } from "./node.ts";
import type { Vote } from "./quorum-call.ts";
import type { NotVoting } from "./script-replies.ts";

/** Clocks further apart than this eat up the grace of short leases. */
const SKEW_MS = 100;
const ENOUGH_NODES = 5;

interface Report {
  readonly notVoting: NotVoting | null;
  readonly info: Info;
  readonly clock: ClockReading;
}

/** Rejects a number of nodes that cannot keep the promises, unless the caller accepts it by name. */
export function rejectFew(nodes: number, allow: readonly string[]): void {
  if ((nodes >= 3 && nodes % 2 === 1) || allow.includes("few-nodes")) return;
  const why =
    nodes % 2 === 0
      ? "an even number of nodes survives no more failures than one node less, and can be split in half"
      : "fewer than three nodes survive no failure at all";
  throw new UnsafeStoreError(
    `the redlock store was given ${nodes === 1 ? "one node" : `${nodes} nodes`}: ${why}`,
    {
      setting: "nodes",
      fix: 'give it five independent masters, or three, or accept it with allow: ["few-nodes"]',
    },
  );
}

/** Rejects a server that is named twice: it would vote twice. */
export function rejectSame(nodes: readonly Node[]): void {
  const known = new Map<string, Node>();
  for (const node of nodes) {
    const other = node.run === "" ? undefined : known.get(node.run);
    if (other !== undefined) {
      throw new UnsafeStoreError(`${other.name} and ${node.name} are the same server, and would vote twice`, {
        setting: "nodes",
        fix: "name each server once",
      });
    }
    known.set(node.run, node);
  }
}

/** Rejects nodes that may drop locks. */
export function rejectEvicting(votes: readonly Vote<unknown>[]): void {
  for (const vote of votes)
    if (vote.state === "failed" && vote.error instanceof UnsafeStoreError) throw vote.error;
}

export async function findProblems(
  nodeSet: NodeSet,
  membership: Membership,
  unsubscribed: ReadonlyMap<Node, Error>,
  io: Io,
  nowMs: () => number,
): Promise<Finding[]> {
  const { votes } = await nodeSet.ask<Report, never>(
    { ask: (node) => report(node, membership, io, nowMs), decide: () => null },
    io,
  );
  const found: Finding[] = [...fewNodes(nodeSet.nodes.length)];
  const clocks: ClockReading[] = [];
  votes.forEach((vote, at) => {
    const { name } = nodeSet.nodes[at] as Node;
    if (vote.state !== "answered") {
      const why = vote.state === "failed" ? reasonOf(vote.error) : "it did not answer in time";
      found.push(unreachable(name, why));
      return;
    }
    const { notVoting, info, clock } = vote.answer;
    clocks.push(clock);
    if (notVoting !== null) found.push(absenceFinding(name, notVoting));
    found.push(...settings(name, info));
  });
  for (const [node, error] of unsubscribed) {
    // A node that cannot be reached has a finding already.
    if (votes[nodeSet.nodes.indexOf(node)]?.state === "answered") found.push(noPush(node.name, error));
  }
  return [...found, ...findClockSkew(clocks)];
}

async function report(node: Node, membership: Membership, io: Io, nowMs: () => number): Promise<Report> {
  const [notVoting, info] = await Promise.all([
    membership.registerNode(node).catch(ignoreUnwritable),
    node.send(["INFO"], io).then((text) => parseInfo(textOf(text))),
  ]);
  // Alone: a command that shares the connection would look like a slow network.
  return { notVoting, info, clock: await readClock(node, io, nowMs) };
}

/** A replica takes no writes, and a node that may evict is not registered. Their INFO says what they are. */
function ignoreUnwritable(error: unknown): null {
  if (error instanceof UnsafeStoreError) return null;
  if (error instanceof Error && error.message.startsWith("READONLY")) return null;
  throw error;
}

function fewNodes(nodes: number): Finding[] {
  if (nodes >= ENOUGH_NODES && nodes % 2 === 1) return [];
  return [
    {
      id: "few-nodes",
      level: "warning",
      what: `there are ${nodes} nodes`,
      why: "with fewer than five, one node that is restarted and one that fails are already too many",
      fix: "use five independent masters",
    },
  ];
}

function settings(node: string, info: Info): Finding[] {
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  const found: Finding[] = [];
  if (Number(info.get("maxmemory") ?? 0) > 0 && policy !== "noeviction") {
    found.push({
      id: "eviction",
      level: "danger",
      what: `${node} may evict locks: its maxmemory-policy is ${policy}`,
      why: "a node that evicts forgets locks and fences without anybody knowing",
      fix: EVICTION_FIX,
    });
  }
  if (info.get("role") === "slave") {
    found.push({
      id: "replica",
      level: "danger",
      what: `${node} is a replica`,
      why: "the nodes of a redlock are independent masters: what a replica holds is another's vote",
      fix: "give the master, or a node of its own",
    });
  }
  if (info.get("aof_enabled") === "0") {
    found.push({
      id: "persistence",
      level: "info",
      what: `${node} has no append-only file`,
      why: "after a restart it is in quarantine for longer than maxTtl before it votes again",
      fix: "set appendonly yes and appendfsync always where restarts are frequent",
    });
  }
  return found;
}

/** The middle clock counts as right. A difference that a slow network explains is no finding. */
export function findClockSkew(clocks: readonly ClockReading[]): Finding[] {
  const middle = clocks.toSorted((a, b) => a.aheadMs - b.aheadMs)[clocks.length >> 1];
  if (middle === undefined) return [];
  return clocks.flatMap(({ name, aheadMs, errorMs }) => {
    const apartMs = Math.abs(aheadMs - middle.aheadMs);
    if (apartMs - errorMs - middle.errorMs <= SKEW_MS) return [];
    return [
      {
        id: "clock-skew",
        level: "warning" as const,
        what: `the clock of ${name} is ${Math.round(apartMs)} ms ${aheadMs > middle.aheadMs ? "ahead of" : "behind"} the others'`,
        why: "fences do not care, but a clock that is set while leases live ends them early or late on that node",
        fix: "let NTP slew the clocks of all nodes",
      },
    ];
  });
}

function unreachable(node: string, why: string): Finding {
  return {
    id: "node-unreachable",
    level: "danger",
    what: `${node} cannot be reached: ${why}`,
    why: "the others have to be a majority without it",
    fix: "bring it back, or replace it",
  };
}

function noPush(node: string, error: Error): Finding {
  return {
    id: "no-push",
    level: "warning",
    what: `${node} does not let this client listen: ${error.message}`,
    why: "where a majority cannot be heard, waiters learn of a free key by polling only",
    fix: "allow one more connection per process, and to this user +subscribe and the channels NAMESPACE:push:*",
  };
}

// How a key is won. The client proposes a fence to all nodes at once; a node accepts only a larger one than all it has accepted.
//
// 1. Propose T to all nodes. A majority that accepts this very T: granted. The first time a majority is asked before the others:
//    if all of them accept, the others hear of it next, and never if it has been released by then.
// 2. Refused because others have got further: propose a larger T to *all* nodes, and count only acceptances of that one. What
//    was accepted of the lower one is worth nothing.
// 3. Else the proposal is taken back on *all* nodes, also on those that were silent, and the answer says why.

import type { AttemptAnswer, Busy, HolderInfo, Io, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { isUnsent, markUnsent, StoreUnavailableError } from "../../core/errors.ts";
import { quorumError } from "./errors.ts";
import { count, type Fleet, pending } from "./fleet.ts";
import { CLAIM_MS, POLL_MS } from "./guarantees.ts";
import type { Node } from "./node.ts";
import type { Polling } from "./polling.ts";
import type { Proposals } from "./proposals.ts";
import type { Vote } from "./quorum.ts";
import { answerWords, type Held, type NodeAnswer } from "./words.ts";

/** So many proposals within one attempt; each follows one that was refused for a reason that it mends. */
const MOST_PROPOSALS = 4;
/** After a vote that was split between several who asked at once, they ask again at different moments. */
const SPLIT_MS = 40;
const SOONEST_MS = 5;
/** A node that is asked first and needs longer than this is left for the others. */
const HEDGE_MS = 10;

export interface Cookie {
  /** The fence as it was proposed. */
  readonly fence: number;
}

/** What is known of a request beyond its words. */
export interface Standing {
  readonly turn: number;
  /** When it first asked, by its own clock: the older goes first. */
  readonly birth: number;
  /** Its last proposal, if it may still be counted. */
  proposed: number | null;
  /** The last number that a grant of it may have used. */
  used: number;
  /** How many calls have asked for it. Only the last one may count or take back anything. */
  calls: number;
  /** Nodes that were not asked, because a majority had granted it before. */
  spared: readonly Node[];
}

export interface AttemptDeps {
  readonly fleet: Fleet;
  readonly proposals: Proposals;
  readonly system: System;
  readonly polling: Polling;
}

type Votes = readonly Vote<NodeAnswer>[];

export async function attempt(
  deps: AttemptDeps,
  request: Request,
  standing: Standing,
  io: Io,
): Promise<AttemptAnswer<Cookie>> {
  const { fleet, polling, proposals } = deps;
  standing.calls += 1;
  const call = standing.calls;
  const refuseOld = (): void => {
    if (standing.calls !== call)
      throw new StoreUnavailableError("a later call of the same request took over");
  };
  // Repeated as it was: what an earlier send of it has reached is counted again.
  let fence = standing.proposed ?? proposals.next(standing.used);
  for (let tries = 1; ; tries += 1) {
    standing.proposed = fence;
    const proposal = { fence, takenBack: false };
    const votes = await propose(deps, request, standing, proposal, tries, io);
    refuseOld();
    if (is(votes, "granted") >= fleet.majority) return granted(request, standing, fence);
    if (is(votes, "ended") > 0) {
      proposal.takenBack = true;
      polling.undo(request, standing, fence, fleet.nodes);
      return { ended: true };
    }
    const next = again(deps, votes, standing);
    if (next !== null && tries < MOST_PROPOSALS) {
      fence = next;
      continue;
    }
    standing.proposed = null;
    proposal.takenBack = true;
    polling.undo(request, standing, fence, fleet.nodes);
    return refused(deps, request, votes, tries);
  }
}

async function propose(
  deps: AttemptDeps,
  request: Request,
  standing: Standing,
  proposal: { readonly fence: number; readonly takenBack: boolean },
  tries: number,
  io: Io,
): Promise<Votes> {
  const { fleet, polling } = deps;
  const { majority, nodes } = fleet;
  const { fence } = proposal;
  const put = polling.proposal(request, standing, fence, io);
  // Whoever has asked before may be waited for on any node, and a key that is kept has to be on all of them.
  const quick = tries === 1 && request.seq === 1 && request.keepMs === 0;
  const first = quick ? fleet.likely(request.keys[0] as string) : null;
  const call = standing.calls;
  standing.spared = [];
  const { votes, whole } = await fleet.ask<NodeAnswer, boolean>(
    {
      ask: put,
      vanguard: first === null ? undefined : { nodes: first, patienceMs: HEDGE_MS, agrees },
      decide(now) {
        const [yes, open] = [is(now, "granted"), pending(now)];
        if (yes >= majority) return true;
        if (yes + open >= majority) return null;
        // This one cannot win. Whether a larger one could is known when a majority would have it, or none can.
        const winnable = yes + is(now, "low") + is(now, "far");
        return winnable >= majority || winnable + open < majority ? false : null;
      },
      patienceMs: patienceMs(deps, io),
      // A grant that comes after its proposal was taken back is undone: the withdrawal may have overtaken it.
      late(node, answer) {
        if (answer.kind === "granted" && proposal.takenBack) polling.undo(request, standing, fence, [node]);
      },
    },
    io,
  );
  if (!whole && standing.calls === call) {
    standing.spared = nodes.filter((node) => first?.has(node) === false);
    polling.join(standing, put);
  }
  return votes;
}

function agrees({ kind }: NodeAnswer): boolean {
  return kind === "granted";
}

/** A proposal may be followed by another one. */
function patienceMs({ fleet }: AttemptDeps, io: Io): number {
  return fleet.patienceMs(io) / 2;
}

/** The next proposal, where a larger one can win; null where it cannot. */
function again({ fleet, proposals }: AttemptDeps, votes: Votes, standing: Standing): number | null {
  const winnable = is(votes, "granted") + is(votes, "low") + is(votes, "far");
  if (winnable < fleet.majority) return null;
  const lows = votes.flatMap((vote) =>
    vote.state === "answered" && (vote.answer.kind === "low" || vote.answer.kind === "far")
      ? [vote.answer]
      : [],
  );
  const known = Math.max(standing.used, ...lows.map((low) => low.c));
  const far = lows.filter((low) => low.kind === "far").map((low) => low.wallUs);
  // Nodes whose clocks are elsewhere: the middle one of them, and not this machine's, says what time it is. Whoever is ahead has to go back.
  if (far.length > fleet.nodes.length - fleet.majority) {
    proposals.forget();
    return Math.max(known + 1, far.sort((a, b) => a - b)[far.length >> 1] as number);
  }
  const above = Math.max(known, standing.proposed ?? 0);
  return proposals.next(above);
}

function granted(request: Request, standing: Standing, fence: number): AttemptAnswer<Cookie> {
  const { fenceRoom } = request;
  standing.used = fence + fenceRoom;
  return {
    granted: {
      fences: [BigInt(fence)],
      fenceRoom,
      validMs: request.ttlMs,
      anchor: request.seq,
      cookie: { fence },
    },
  };
}

function refused(deps: AttemptDeps, request: Request, votes: Votes, tries: number): AttemptAnswer<Cookie> {
  const { fleet, system } = deps;
  const nodes = fleet.reasons(votes, answerWords);
  const spoke = count(votes, ({ kind }) => kind !== "out" && kind !== "far") + pending(votes);
  if (spoke < fleet.majority) {
    const cause = votes.find((vote) => vote.state === "failed");
    const error = quorumError(
      "grant",
      request.keys[0],
      nodes,
      fleet.majority,
      cause?.state === "failed" ? cause.error : undefined,
    );
    const noneSent = tries === 1 && votes.every((vote) => vote.state === "failed" && isUnsent(vote.error));
    throw noneSent ? markUnsent(error) : error;
  }
  const holders = holdersOf(votes, fleet.majority);
  const busy: Busy = { holders, nodes, againMs: againMs(votes, holders, system.random()) };
  return { busy };
}

/** Who holds it as far as the votes tell: whoever has most of them, if nobody has a majority yet. */
function holdersOf(votes: Votes, majority: number): HolderInfo[] {
  const byFence = new Map<number, Held[]>();
  for (const vote of votes) {
    if (vote.state !== "answered" || vote.answer.kind !== "held") continue;
    byFence.set(vote.answer.fence, [...(byFence.get(vote.answer.fence) ?? []), vote.answer]);
  }
  const most = [...byFence.values()].sort((a, b) => b.length - a.length)[0];
  const unseen = votes.filter((vote) => vote.state !== "answered").length;
  if (most === undefined || most.length + unseen < majority) return [];
  return [(most[0] as Held).info];
}

function againMs(votes: Votes, holders: readonly HolderInfo[], random: number): number {
  const [holder] = holders;
  if (holder !== undefined) return Math.min(POLL_MS, holder.remainingMs + SOONEST_MS) * (0.8 + random / 5);
  const bound = is(votes, "promised") > 0 ? CLAIM_MS : SPLIT_MS;
  return SOONEST_MS + bound * random;
}

function is(votes: Votes, kind: NodeAnswer["kind"]): number {
  return count(votes, (answer) => answer.kind === kind);
}

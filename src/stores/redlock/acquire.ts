// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ with fences.
//
// How a key is taken and released. The client proposes a fence T to the nodes. A node accepts T only if the
// key is free and T is larger than every fence that it has accepted.
//
// 1. Propose T to all nodes. A majority that accepts this very T grants the key.
// 2. If nodes refused T because they have accepted larger fences, propose a larger T to *all* nodes, and
//    count only acceptances of that one. What was accepted of the lower one is worth nothing.
// 3. Otherwise withdraw T on every node that accepted it or did not answer. The answer says why.
// 4. A release goes to all nodes that may have accepted a proposal. It tells them the largest T of the
//    request, so that a proposal which arrives later is too low (P8).

import { isUnsent, markUnsent, StoreUnavailableError } from "../../core/errors.ts";
import type { AttemptAnswer, HolderInfo, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { RedisKeys } from "../redis/commands/keys.ts";
import { type Reply, textOf } from "../redis/client/port.ts";
import { closedError } from "./errors.ts";
import type { FenceGenerator } from "./fence-generator.ts";
import { CLAIM_MS, POLL_MS } from "./guarantees.ts";
import { majorityAnswer } from "./majority-answer.ts";
import type { Membership } from "./membership.ts";
import type { Node } from "./node.ts";
import type { BatchItem, NodeBatcher } from "./node-batcher.ts";
import type { NodeSet } from "./node-set.ts";
import { ProposalCodec } from "./proposal-codec.ts";
import { count, countPending, QuorumCall, type Vote } from "./quorum-call.ts";
import type { RequestState, RequestStates } from "./request-state.ts";
import {
  describeAnswer,
  type Held,
  JUMPED,
  type NodeAnswer,
  type NotVoting,
  readAnswer,
} from "./script-replies.ts";

/** So many proposals within one attempt. Each follows one that was refused for a reason that it corrects. */
const MOST_PROPOSALS = 4;
/** After a vote that was split between several who asked at once, they ask again at different moments. */
const SPLIT_MS = 40;
const SOONEST_MS = 5;
/** Waiters up to this position look at the end of the lease. Those behind them leave it to them. */
const WATCHING_THE_END = 2;

export interface Cookie {
  /** The fence as it was proposed. */
  readonly fence: number;
}

export type Settle<T> = (error: unknown, answer: T | null) => void;

/** What acquiring needs of the store. */
export interface AcquireContext {
  readonly nodeSet: NodeSet;
  readonly batcher: NodeBatcher;
  readonly membership: Membership;
  readonly states: RequestStates;
  readonly fences: FenceGenerator;
  readonly names: RedisKeys;
  readonly system: System;
}

export class Acquirer {
  readonly context: AcquireContext;
  readonly codec: ProposalCodec = new ProposalCodec();
  isClosed = false;

  constructor(context: AcquireContext) {
    this.context = context;
  }

  attempt(request: Request, timeoutMs: number, settle: Settle<AttemptAnswer<Cookie>>): void {
    const { states, fences } = this.context;
    const state = states.of(request, () => fences.next());
    if (state === null) {
      queueMicrotask(() => settle(null, { ended: true }));
      return;
    }
    new Attempt(this, request, state, timeoutMs, settle).propose();
  }

  /** Ends the id on all nodes that may have heard of it. Settles with whether the id held the key. */
  end(request: Request, used: string, goal: string, timeoutMs: number, settle: Settle<boolean>): void {
    new End(this, request, used, goal, timeoutMs, settle).start();
  }

  record(request: Request): string {
    return this.context.names.record(request.keys[0] as string);
  }
}

/** One attempt: proposals until the outcome is known. */
class Attempt {
  readonly acquirer: Acquirer;
  readonly request: Request;
  readonly state: RequestState;
  readonly #endMs: number;
  readonly #settle: Settle<AttemptAnswer<Cookie>>;
  readonly #call: number;
  #fence: number;
  #tries = 0;

  constructor(
    acquirer: Acquirer,
    request: Request,
    state: RequestState,
    timeoutMs: number,
    settle: Settle<AttemptAnswer<Cookie>>,
  ) {
    this.acquirer = acquirer;
    this.request = request;
    this.state = state;
    this.#endMs = acquirer.context.system.monoMs() + timeoutMs;
    this.#settle = settle;
    state.calls += 1;
    this.#call = state.calls;
    // The last proposal is repeated as it was: what an earlier send of it has reached is counted again.
    this.#fence = state.proposed ?? acquirer.context.fences.next(state.used);
  }

  /** No later call of the same request took over, and the request has not ended. */
  get isCurrent(): boolean {
    return this.state.calls === this.#call;
  }

  /** Each proposal may use what the ones before it left of the call. */
  get leftMs(): number {
    return Math.max(0, this.#endMs - this.acquirer.context.system.monoMs());
  }

  propose(): void {
    const { state } = this;
    this.#tries += 1;
    state.proposed = this.#fence;
    state.highest = Math.max(state.highest, this.#fence);
    new Proposal(this, this.#fence).start();
  }

  decided(proposal: Proposal): void {
    const { request, state, acquirer } = this;
    const { votes, fence } = proposal;
    const { nodeSet, states } = acquirer.context;
    if (!this.isCurrent)
      return this.#settle(new StoreUnavailableError("a later call of the same request took over"), null);
    if (countKind(votes, "granted") >= nodeSet.majority) {
      state.used = fence + request.reservedFences;
      return this.#settle(null, {
        granted: {
          fences: [BigInt(fence)],
          reservedFences: request.reservedFences,
          validMs: request.ttlMs,
          cookie: { fence },
        },
      });
    }
    if (countKind(votes, "ended") > 0) {
      states.end(request);
      proposal.withdraw();
      return this.#settle(null, { ended: true });
    }
    const next = this.#nextFence(votes);
    if (next !== null && this.#tries < MOST_PROPOSALS) {
      this.#fence = next;
      return this.propose();
    }
    state.proposed = null;
    proposal.withdraw();
    this.#refuse(votes);
  }

  /** A larger fence that can win, or null. */
  #nextFence(votes: readonly Vote<NodeAnswer>[]): number | null {
    const { nodeSet, fences } = this.acquirer.context;
    const lows = votes.flatMap((vote) =>
      vote.state === "answered" && (vote.answer.kind === "low" || vote.answer.kind === "far")
        ? [vote.answer]
        : [],
    );
    if (countKind(votes, "granted") + lows.length < nodeSet.majority) return null;
    const known = Math.max(this.state.used, ...lows.map((low) => low.c));
    const far = lows.filter((low) => low.kind === "far").map((low) => low.wallUs);
    // The clocks of a majority are far from this machine's: the middle one of them says what time it is.
    if (far.length > nodeSet.nodes.length - nodeSet.majority) {
      fences.forget();
      return Math.max(known + 1, far.sort((a, b) => a - b)[far.length >> 1] as number);
    }
    return fences.next(Math.max(known, this.#fence));
  }

  #refuse(votes: readonly Vote<NodeAnswer>[]): void {
    const { request, acquirer } = this;
    const { nodeSet, states, system } = acquirer.context;
    const voted = count(votes, ({ kind }) => kind !== "not-voting" && kind !== "far") + countPending(votes);
    if (voted < nodeSet.majority) {
      const error = nodeSet.error("grant", request.keys[0], votes, describeAnswer);
      const isSent = votes.some((vote) => vote.state !== "failed" || !isUnsent(vote.error));
      return this.#settle(this.#tries === 1 && !isSent ? markUnsent(error) : error, null);
    }
    if (!request.queue) states.end(request);
    const holders = holdersOf(votes, nodeSet.majority);
    const nodes = nodeSet.reasons(votes, describeAnswer);
    const againMs = againAfterMs(votes, holders[0], system.random());
    this.#settle(null, { busy: { holders, nodes, againMs } });
  }
}

/** One proposed fence and what the nodes say to it. */
class Proposal extends QuorumCall<Node, NodeAnswer> implements BatchItem {
  readonly fence: number;
  readonly record: string;
  readonly item: string;
  readonly #attempt: Attempt;
  #isWithdrawn = false;

  constructor(attempt: Attempt, fence: number) {
    const { acquirer, request, state } = attempt;
    const { nodeSet } = acquirer.context;
    super(nodeSet.nodes, nodeSet.deadlines, nodeSet.nodeTimeoutMs(attempt.leftMs));
    this.fence = fence;
    this.#attempt = attempt;
    this.record = acquirer.record(request);
    this.item = acquirer.codec.proposal(request, fence, state.birth);
  }

  protected send(node: Node, at: number): void {
    const { acquirer, request } = this.#attempt;
    if (request.graceMs < node.graceMs) node.graceMs = request.graceMs;
    acquirer.context.batcher.add(at, this);
  }

  replied(at: number, reply: Reply): void {
    this.#read(at, reply, true);
  }

  failed(at: number, error: unknown): void {
    this.heard(at, { state: "failed", error });
  }

  /** `helps`: a node that does not vote may be readmitted, and is then asked once more. */
  #read(at: number, reply: Reply, helps: boolean): void {
    const node = this.nodes[at] as Node;
    try {
      const answer = node.jump !== null ? JUMPED : readAnswer(reply);
      if (answer.kind === "not-voting" && helps) this.#helpToVote(node, at, answer);
      else this.heard(at, { state: "answered", answer });
    } catch (error) {
      this.failed(at, error);
    }
  }

  #helpToVote(node: Node, at: number, answer: NotVoting): void {
    const { batcher, membership } = this.#attempt.acquirer.context;
    void membership.tryReadmit(node, answer).then((isVoting) => {
      if (!isVoting) return this.heard(at, { state: "answered", answer });
      const replied = (_at: number, reply: Reply): void => this.#read(at, reply, false);
      batcher.add(at, { ...this.#item(), replied });
    });
  }

  #item(item: string = this.item, timeoutMs: number = this.timeoutMs): BatchItem {
    const { record } = this;
    return { record, item, timeoutMs, replied() {}, failed: (at, error) => this.failed(at, error) };
  }

  protected decide(): boolean {
    const { votes } = this;
    const { majority } = this.#attempt.acquirer.context.nodeSet;
    const [yes, pending] = [countKind(votes, "granted"), countPending(votes)];
    if (yes >= majority) return true;
    if (yes + pending >= majority) return false;
    // This proposal cannot win. It is known whether a larger one can when a majority would have it, or none
    // can.
    const winnable = yes + countKind(votes, "low") + countKind(votes, "far");
    return winnable >= majority || winnable + pending < majority;
  }

  protected ended(): void {
    this.#attempt.decided(this);
  }

  /** The withdrawal may have overtaken the proposal. */
  protected override late(node: Node, { kind }: NodeAnswer): void {
    if (kind === "granted" && this.#isWithdrawn) this.#withdrawOn(this.nodes.indexOf(node));
  }

  /**
   * Nobody waits for it: whoever asks next comes after it on the same connection. `late` hears of a node that
   * has yet to answer, and the next attempt of a waiter or its end reaches all nodes.
   */
  withdraw(): void {
    this.#isWithdrawn = true;
    const { queue } = this.#attempt.request;
    for (const [at, vote] of this.votes.entries()) {
      const isRefused = vote.state === "answered" && vote.answer.kind !== "granted";
      const isUnsentVote = vote.state === "failed" && isUnsent(vote.error);
      const isLeftToLate = vote.state === "pending" && queue;
      if (!isRefused && !isUnsentVote && !isLeftToLate) this.#withdrawOn(at);
    }
  }

  #withdrawOn(at: number): void {
    const { acquirer, request, state } = this.#attempt;
    // A store that is closed has ended everything, and its connections are gone.
    if (acquirer.isClosed) return;
    const { codec } = acquirer;
    const item = request.queue
      ? codec.withdrawal(this.item)
      : codec.end(request.id, String(this.fence), state.highest);
    // Sent now or not at all: a client must not queue it for a node that is not connected.
    acquirer.context.batcher.add(at, { ...this.#item(item, 0), failed() {} });
  }
}

/** The end of a request: its release or abandonment. */
class End extends QuorumCall<Node, string> implements BatchItem {
  readonly record: string;
  readonly item: string;
  readonly #acquirer: Acquirer;
  readonly #key: string;
  readonly #goal: string;
  readonly #settle: Settle<boolean>;
  #answer: "1" | "0" | null = null;

  constructor(
    acquirer: Acquirer,
    request: Request,
    used: string,
    goal: string,
    timeoutMs: number,
    settle: Settle<boolean>,
  ) {
    const { nodeSet, states } = acquirer.context;
    super(nodeSet.nodes, nodeSet.deadlines, nodeSet.nodeTimeoutMs(timeoutMs));
    const highest = states.end(request);
    this.#acquirer = acquirer;
    this.#key = request.keys[0] as string;
    this.#goal = goal;
    this.#settle = settle;
    this.record = acquirer.record(request);
    this.item = acquirer.codec.end(request.id, used, highest);
  }

  protected send(_node: Node, at: number): void {
    this.#acquirer.context.batcher.add(at, this);
  }

  replied(at: number, reply: Reply): void {
    this.heard(at, reply === 1 ? ENDED : { state: "answered", answer: textOf(reply) });
  }

  failed(at: number, error: unknown): void {
    this.heard(at, { state: "failed", error });
  }

  protected decide(): boolean {
    this.#answer = majorityAnswer(this.votes, HELD_OR_NOT, this.#acquirer.context.nodeSet.majority);
    return this.#answer !== null;
  }

  protected ended(): void {
    const { nodeSet } = this.#acquirer.context;
    if (this.#answer !== null) return this.#settle(null, this.#answer === "1");
    const error = this.#acquirer.isClosed
      ? closedError(this.#key)
      : nodeSet.error(this.#goal, this.#key, this.votes, (answer) => `answered ${answer}`);
    this.#settle(error, null);
  }
}

const ENDED: Vote<string> = { state: "answered", answer: "1" };
const HELD_OR_NOT = ["1", "0"] as const;

function countKind(votes: readonly Vote<NodeAnswer>[], kind: NodeAnswer["kind"]): number {
  let found = 0;
  for (const vote of votes) if (vote.state === "answered" && vote.answer.kind === kind) found += 1;
  return found;
}

/** Who holds the key as far as the votes say: whoever has most of them, if nobody can have a majority yet. */
function holdersOf(votes: readonly Vote<NodeAnswer>[], majority: number): HolderInfo[] {
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

/** When to attempt again: as the nodes say, which grows with the position, or when the lease ends. */
function againAfterMs(
  votes: readonly Vote<NodeAnswer>[],
  holder: HolderInfo | undefined,
  random: number,
): number {
  let [againMs, position, reserved] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0];
  for (const vote of votes) {
    if (vote.state !== "answered" || (vote.answer.kind !== "held" && vote.answer.kind !== "reserved"))
      continue;
    if (vote.answer.kind === "reserved") reserved += 1;
    againMs = Math.min(againMs, vote.answer.againMs || POLL_MS);
    position = Math.min(position, vote.answer.position);
  }
  if (holder === undefined && position <= WATCHING_THE_END)
    return SOONEST_MS + (reserved > 0 ? CLAIM_MS : SPLIT_MS) * random;
  if (againMs === Number.POSITIVE_INFINITY) againMs = SPLIT_MS;
  if (holder !== undefined && position <= WATCHING_THE_END)
    againMs = Math.min(againMs, holder.remainingMs + SOONEST_MS);
  return againMs * (0.8 + random / 5);
}

// The nodes together: opened as a majority, asked in one ballot, described one by one.

import type { NodeReason } from "../../core/errors.ts";
import type { Io } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { quorumError, reasonOf } from "./errors.ts";
import type { Node } from "./node.ts";
import { ballot, majorityOf, type Outcome, type Vanguard, type Vote } from "./quorum.ts";

/** A node may use up so much of a call: the rest is for telling why it failed. */
const CALL_SHARE = 0.85;
const OPEN_MS = 4_500;
/** All nodes are asked at least so often while anybody asks: one that was restarted is taken in again by being asked. */
const ALL_EVERY_MS = 100;

export interface Asking<A, D> {
  ask(node: Node): Promise<A>;
  decide(votes: readonly Vote<A>[]): D | null;
  late?(node: Node, answer: A): void;
  /** Default: all. */
  readonly nodes?: readonly Node[];
  /** Default: what a call and the options allow. */
  readonly patienceMs?: number;
  readonly vanguard?: Vanguard<Node, A> | undefined;
}

export class Fleet {
  readonly nodes: readonly Node[];
  readonly majority: number;
  readonly #later: (ms: number, fn: () => void) => () => void;
  readonly #nodeTimeoutMs: number;
  readonly #system: System;
  #allAskedMs = Number.NEGATIVE_INFINITY;

  constructor(nodes: readonly Node[], system: System, nodeTimeoutMs: number) {
    this.nodes = nodes;
    this.majority = majorityOf(nodes.length);
    this.#nodeTimeoutMs = nodeTimeoutMs;
    this.#system = system;
    this.#later = (ms, fn) => system.after(ms, fn, "background");
  }

  /** Resolves when a majority is connected. */
  async open(): Promise<void> {
    const enough = (votes: readonly Vote<null>[]): boolean => count(votes, () => true) >= this.majority;
    const { decision, votes } = await this.ask<null, true>(
      {
        ask: (node) => node.connected().then(() => null),
        decide: (now) => (enough(now) ? true : null),
        patienceMs: OPEN_MS,
      },
      { timeoutMs: OPEN_MS },
    );
    // Whoever is slower has had no chance yet.
    for (const node of this.nodes) node.doubted = false;
    if (decision !== null) return;
    const cause = votes.find((vote) => vote.state === "failed");
    throw quorumError(
      "opening",
      undefined,
      this.reasons(votes, () => "is connected"),
      this.majority,
      cause?.state === "failed" ? cause.error : undefined,
    );
  }

  ask<A, D>(asking: Asking<A, D>, io: Pick<Io, "timeoutMs">): Promise<Outcome<A, D>> {
    return ballot(asking.nodes ?? this.nodes, {
      ask: (node) => asking.ask(node),
      decide: (votes) => asking.decide(votes),
      late: (node, answer) => asking.late?.(node, answer),
      patienceMs: asking.patienceMs ?? this.patienceMs(io),
      later: this.#later,
      vanguard: asking.vanguard,
    });
  }

  /**
   * A majority that is likely to answer: the same for a key in every process, so that rivals meet on the first node. null where all
   * are to be asked.
   */
  likely(key: string): ReadonlySet<Node> | null {
    const { nodes, majority } = this;
    const nowMs = this.#system.monoMs();
    if (nowMs - this.#allAskedMs >= ALL_EVERY_MS) {
      this.#allAskedMs = nowMs;
      return null;
    }
    const chosen = new Set<Node>();
    for (let at = 0, from = hash(key); at < nodes.length && chosen.size < majority; at += 1) {
      const node = nodes[(from + at) % nodes.length] as Node;
      if (!node.doubted && !node.slow) chosen.add(node);
    }
    return chosen.size === majority && majority < nodes.length ? chosen : null;
  }

  /** How long one node may take within a call. */
  patienceMs(io: Pick<Io, "timeoutMs">): number {
    return Math.min(this.#nodeTimeoutMs, io.timeoutMs * CALL_SHARE);
  }

  /** One reason per node. */
  reasons<A>(votes: readonly Vote<A>[], words: (answer: A) => string): NodeReason[] {
    return votes.map((vote, at) => {
      const { name, failure } = this.nodes[at] as Node;
      if (vote.state === "answered") return { node: name, reason: words(vote.answer) };
      if (vote.state === "failed") return { node: name, reason: `failed: ${reasonOf(vote.error)}` };
      if (vote.state === "pending") return { node: name, reason: "was not waited for" };
      const why = failure === null ? "" : `: ${reasonOf(failure)}`;
      return { node: name, reason: `did not answer in time${why}` };
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()));
  }
}

/** Any number will do; it only spreads keys over nodes. */
function hash(key: string): number {
  let sum = 0;
  for (let at = 0; at < key.length; at += 1) sum = (sum * 31 + key.charCodeAt(at)) % 1_000_003;
  return sum;
}

/** How many votes are answers that fit. */
export function count<A>(votes: readonly Vote<A>[], fits: (answer: A) => boolean): number {
  let found = 0;
  for (const vote of votes) if (vote.state === "answered" && fits(vote.answer)) found += 1;
  return found;
}

export function pending<A>(votes: readonly Vote<A>[]): number {
  let found = 0;
  for (const vote of votes) if (vote.state === "pending") found += 1;
  return found;
}

/** Yes when a majority says so, no when that has become impossible, null while it is open or cannot be known. */
export function yesOrNo(votes: readonly Vote<unknown>[], majority: number): boolean | null {
  if (count(votes, (answer) => answer === true) >= majority) return true;
  return count(votes, (answer) => answer === false) > votes.length - majority ? false : null;
}

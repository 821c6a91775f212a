// The nodes together: opened as a majority, asked in one call, described one by one.

import type { NodeReason } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { quorumError, reasonOf } from "./errors.ts";
import type { Node } from "./node.ts";
import { count, Deadlines, majorityOf, QuorumCall, type Vote } from "./quorum-call.ts";

/** A node may use up so much of a call. The rest is for reporting why the call failed. */
const CALL_SHARE = 0.85;
const OPEN_MS = 4_500;

export interface Question<A, D> {
  ask(node: Node): Promise<A>;
  /** What the votes decide, or null to go on. */
  decide(votes: readonly Vote<A>[]): D | null;
  /** Default: what a call and the options allow. */
  readonly nodeTimeoutMs?: number;
}

export interface Outcome<A, D> {
  readonly decision: D | null;
  readonly votes: readonly Vote<A>[];
}

export class NodeSet {
  readonly nodes: readonly Node[];
  readonly majority: number;
  readonly deadlines: Deadlines;
  readonly #nodeTimeoutMs: number;

  constructor(nodes: readonly Node[], system: System, nodeTimeoutMs: number) {
    this.nodes = nodes;
    this.majority = majorityOf(nodes.length);
    this.deadlines = new Deadlines(system);
    this.#nodeTimeoutMs = nodeTimeoutMs;
  }

  /** Resolves when a majority is connected. */
  async open(): Promise<void> {
    const { decision, votes } = await this.ask<null, true>(
      {
        ask: (node) => node.connected().then(() => null),
        decide: (now) => (count(now, () => true) >= this.majority ? true : null),
        nodeTimeoutMs: OPEN_MS,
      },
      { timeoutMs: OPEN_MS },
    );
    // The others have had no chance yet.
    for (const node of this.nodes) node.isSuspect = false;
    if (decision === null) throw this.error("opening", undefined, votes, () => "is connected");
  }

  /** Asks all nodes. */
  ask<A, D>(question: Question<A, D>, call: { readonly timeoutMs: number }): Promise<Outcome<A, D>> {
    const timeoutMs = question.nodeTimeoutMs ?? this.nodeTimeoutMs(call.timeoutMs);
    return new Promise((resolve) => {
      new PromisedCall(this, question, timeoutMs, resolve).start();
    });
  }

  /** How long one node may take within a call. */
  nodeTimeoutMs(timeoutMs: number): number {
    return Math.min(this.#nodeTimeoutMs, timeoutMs * CALL_SHARE);
  }

  /** One reason per node. */
  reasons<A>(votes: readonly Vote<A>[], describe: (answer: A) => string): NodeReason[] {
    return votes.map((vote, at) => {
      const { name, failure } = this.nodes[at] as Node;
      if (vote.state === "answered") return { node: name, reason: describe(vote.answer) };
      if (vote.state === "failed") return { node: name, reason: `failed: ${reasonOf(vote.error)}` };
      if (vote.state === "pending") return { node: name, reason: "was not waited for" };
      const why = failure === null ? "" : `: ${reasonOf(failure)}`;
      return { node: name, reason: `did not answer in time${why}` };
    });
  }

  /** `goal` completes "no majority for the". */
  error<A>(
    goal: string,
    key: string | undefined,
    votes: readonly Vote<A>[],
    describe: (answer: A) => string,
  ): Error {
    const failed = votes.find((vote) => vote.state === "failed");
    const cause = failed?.state === "failed" ? failed.error : undefined;
    return quorumError(goal, key, this.reasons(votes, describe), this.majority, cause);
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()));
  }
}

/** A call whose question is a function that returns a promise. */
class PromisedCall<A, D> extends QuorumCall<Node, A> {
  readonly #question: Question<A, D>;
  readonly #resolve: (outcome: Outcome<A, D>) => void;
  #decision: D | null = null;

  constructor(
    { nodes, deadlines }: NodeSet,
    question: Question<A, D>,
    timeoutMs: number,
    resolve: (outcome: Outcome<A, D>) => void,
  ) {
    super(nodes, deadlines, timeoutMs);
    this.#question = question;
    this.#resolve = resolve;
  }

  protected send(node: Node, at: number): void {
    this.#question.ask(node).then(
      (answer) => this.heard(at, { state: "answered", answer }),
      (error: unknown) => this.heard(at, { state: "failed", error }),
    );
  }

  protected decide(): boolean {
    this.#decision = this.#question.decide(this.votes);
    return this.#decision !== null;
  }

  protected ended(): void {
    this.#resolve({ decision: this.#decision, votes: this.votes });
  }
}

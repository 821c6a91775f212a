// One question to all nodes. The call ends as soon as the votes decide it either way, and no later.
//
// 1. All nodes are asked at the same moment.
// 2. After each vote `decide` looks at all votes. It ends the call by returning true.
// 3. A node that has not answered when the timeout is over is silent. A node that was silent the last time is
//    suspect: the call does not wait for it when the others are a majority, but counts what it says in time.
// 4. Whatever arrives afterwards goes to `late`.

import type { System } from "../../core/system.ts";

/** Most calls are over by then, and need no timer of their own. */
const QUICK_MS = 10;

export type Vote<A> =
  | { readonly state: "pending" }
  | { readonly state: "silent" }
  | { readonly state: "failed"; readonly error: unknown }
  | { readonly state: "answered"; readonly answer: A };

/** A node as a call sees it. */
export interface Voter {
  /** It was silent the last time. */
  isSuspect: boolean;
}

const PENDING: Vote<never> = { state: "pending" };
const SILENT: Vote<never> = { state: "silent" };

export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/** How many votes are answers that fit. */
export function count<A>(votes: readonly Vote<A>[], fits: (answer: A) => boolean): number {
  let found = 0;
  for (const vote of votes) if (vote.state === "answered" && fits(vote.answer)) found += 1;
  return found;
}

export function countPending(votes: readonly Vote<unknown>[]): number {
  let found = 0;
  for (const vote of votes) if (vote === PENDING) found += 1;
  return found;
}

export abstract class QuorumCall<N extends Voter, A> {
  readonly nodes: readonly N[];
  readonly votes: Vote<A>[];
  readonly timeoutMs: number;
  startedMs = 0;
  isOpen = true;
  readonly #deadlines: Deadlines;
  #cancel: (() => void) | null = null;

  constructor(nodes: readonly N[], deadlines: Deadlines, timeoutMs: number) {
    this.nodes = nodes;
    this.#deadlines = deadlines;
    this.timeoutMs = timeoutMs;
    this.votes = nodes.map(() => PENDING);
  }

  /** Sends the question to a node. `heard` is called later with its vote, never at once. */
  protected abstract send(node: N, at: number): void;
  /** Whether the votes decide the call. Called once more, with no vote pending, before the call ends. */
  protected abstract decide(): boolean;
  /** The call has ended. */
  protected abstract ended(): void;
  protected late(_node: N, _answer: A): void {}

  start(): void {
    this.#deadlines.add(this);
    for (let at = 0; at < this.nodes.length; at += 1) this.send(this.nodes[at] as N, at);
  }

  heard(at: number, vote: Vote<A>): void {
    const node = this.nodes[at] as N;
    // A call that fails is no sign of life of its node.
    if (vote.state === "answered") node.isSuspect = false;
    if (!this.isOpen) {
      if (vote.state === "answered") this.late(node, vote.answer);
      return;
    }
    this.votes[at] = vote;
    if (this.decide()) this.#end();
    else if (!this.#isWorthWaiting()) this.#timeOutPending();
  }

  /** The call was not quick. */
  setTimer(): void {
    const leftMs = Math.max(0, this.timeoutMs - QUICK_MS);
    this.#cancel = this.#deadlines.after(leftMs, () => {
      if (this.isOpen) this.#timeOutPending();
    });
  }

  #timeOutPending(): void {
    for (const [at, node] of this.nodes.entries()) {
      if (this.votes[at] !== PENDING) continue;
      this.votes[at] = SILENT;
      node.isSuspect = true;
    }
    this.decide();
    this.#end();
  }

  #end(): void {
    this.isOpen = false;
    this.#cancel?.();
    this.ended();
  }

  /** A node is pending that is not suspect, or the suspect nodes are needed for a majority. */
  #isWorthWaiting(): boolean {
    let [isPending, voted] = [false, 0];
    for (const [at, vote] of this.votes.entries()) {
      if (vote !== PENDING) voted += 1;
      else if (this.nodes[at]?.isSuspect === false) return true;
      else isPending = true;
    }
    return isPending && voted < majorityOf(this.nodes.length);
  }
}

type AnyCall = Pick<QuorumCall<Voter, unknown>, "isOpen" | "startedMs" | "setTimer">;

/** One timer for all calls that are young, and then one for each that was not quick. */
export class Deadlines {
  readonly #system: System;
  #calls: AnyCall[] = [];
  #isArmed = false;

  constructor(system: System) {
    this.#system = system;
  }

  add(call: AnyCall): void {
    call.startedMs = this.#system.monoMs();
    this.#calls.push(call);
    if (!this.#isArmed) this.#arm(QUICK_MS);
  }

  /**
   * Runs `fn` after `ms`, and after the sockets were read. A blocked event loop runs its timers first: the
   * answers may be there, unread.
   */
  after(ms: number, fn: () => void): () => void {
    return this.#system.after(ms, () => void this.#system.yield().then(fn), "background");
  }

  #arm(ms: number): void {
    this.#isArmed = true;
    this.#system.after(ms, () => this.#fire(), "background");
  }

  #fire(): void {
    this.#isArmed = false;
    const nowMs = this.#system.monoMs();
    const open = this.#calls.filter(({ isOpen }) => isOpen);
    this.#calls = open.filter(({ startedMs }) => nowMs - startedMs < QUICK_MS);
    const [next] = this.#calls;
    if (next !== undefined) this.#arm(Math.max(1, next.startedMs + QUICK_MS - nowMs));
    for (const call of open) if (nowMs - call.startedMs >= QUICK_MS) call.setTimer();
  }
}

// One ballot: ask all nodes at once, listen until the vote is decided either way, and no longer. It does not know its cargo:
// what is asked, what counts and what is decided come from outside, and so does time.
//
// 1. All nodes are asked in the same moment; or a majority of them first, and the others as soon as one of these does not agree
//    or lets the others wait.
// 2. After each answer `decide` looks at all votes. The first answer that it gives ends the ballot.
// 3. A node that has not answered when the patience is over is silent. One that is doubted, because it was silent the last
//    time, is not waited for when the others are a majority; whatever it says in time still counts.
// 4. Whatever comes in afterwards goes to `late`.

export type Vote<A> =
  | { readonly state: "pending" }
  | { readonly state: "silent" }
  | { readonly state: "failed"; readonly error: unknown }
  | { readonly state: "answered"; readonly answer: A };

/** A node as a ballot sees it. */
export interface Voter {
  /** It was silent the last time. */
  doubted: boolean;
  /** It has let others wait, and has not answered since. It is waited for as the others are, but not asked first. */
  slow: boolean;
}

export interface Ballot<N extends Voter, A, D> {
  ask(node: N): Promise<A>;
  /** What the votes so far decide; null to go on. Called once more, with nobody pending, before the ballot ends without one. */
  decide(votes: readonly Vote<A>[]): D | null;
  readonly patienceMs: number;
  /** Runs something after so many ms; returns its cancellation. */
  later(ms: number, fn: () => void): () => void;
  late?(node: N, answer: A): void;
  /** Who is asked first. Absent: all are. */
  readonly vanguard?: Vanguard<N, A> | undefined;
}

export interface Vanguard<N, A> {
  readonly nodes: ReadonlySet<N>;
  /** After so long without a decision the others are asked too, and whoever is missing is slow. */
  readonly patienceMs: number;
  /** Whether this answer leaves hope that the others need not be asked. */
  agrees(answer: A): boolean;
}

export interface Outcome<A, D> {
  readonly decision: D | null;
  readonly votes: readonly Vote<A>[];
  /** Everybody was asked, not the vanguard alone. */
  readonly whole: boolean;
}

const PENDING: Vote<never> = { state: "pending" };
const SILENT: Vote<never> = { state: "silent" };

export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

export function ballot<N extends Voter, A, D>(
  nodes: readonly N[],
  rules: Ballot<N, A, D>,
): Promise<Outcome<A, D>> {
  return new Promise((resolve) => {
    new Polls(nodes, rules, resolve).open();
  });
}

/** One ballot from its opening to its outcome. */
class Polls<N extends Voter, A, D> {
  readonly #nodes: readonly N[];
  readonly #rules: Ballot<N, A, D>;
  readonly #resolve: (outcome: Outcome<A, D>) => void;
  readonly #votes: Vote<A>[];
  #open = true;
  #whole: boolean;
  #cancel: () => void = () => {};

  constructor(nodes: readonly N[], rules: Ballot<N, A, D>, resolve: (outcome: Outcome<A, D>) => void) {
    this.#nodes = nodes;
    this.#rules = rules;
    this.#resolve = resolve;
    this.#votes = nodes.map(() => PENDING);
    this.#whole = rules.vanguard === undefined;
  }

  open(): void {
    const { vanguard, patienceMs } = this.#rules;
    this.#nodes.forEach((node, at) => {
      if (vanguard?.nodes.has(node) !== false) this.#ask(node, at);
    });
    if (vanguard === undefined) {
      this.#wait(patienceMs);
      return;
    }
    const firstMs = Math.min(vanguard.patienceMs, patienceMs / 2);
    this.#cancel = this.#rules.later(firstMs, () => {
      if (!this.#open) return;
      this.#nodes.forEach((node, at) => {
        if (this.#votes[at] === PENDING && vanguard.nodes.has(node)) node.slow = true;
      });
      this.#wait(patienceMs - firstMs);
      if (!this.#whole) this.#askOthers();
    });
  }

  #ask(node: N, at: number): void {
    this.#rules.ask(node).then(
      (answer) => this.#heard(node, at, { state: "answered", answer }),
      (error: unknown) => this.#heard(node, at, { state: "failed", error }),
    );
  }

  #askOthers(): void {
    this.#whole = true;
    this.#nodes.forEach((node, at) => {
      if (this.#rules.vanguard?.nodes.has(node) === false) this.#ask(node, at);
    });
  }

  #heard(node: N, at: number, vote: Vote<A>): void {
    // Giving up on a node that stands still is not a sign of life.
    if (vote.state === "answered") node.doubted = node.slow = false;
    else node.slow = true;
    if (!this.#open) {
      if (vote.state === "answered") this.#rules.late?.(node, vote.answer);
      return;
    }
    this.#votes[at] = vote;
    const decision = this.#rules.decide(this.#votes);
    if (decision !== null) this.#end(decision);
    else if (this.#whole) {
      if (!worthWaiting(this.#nodes, this.#votes)) this.#hush();
    } else if (vote.state !== "answered" || this.#rules.vanguard?.agrees(vote.answer) !== true) {
      this.#askOthers();
    }
  }

  #wait(ms: number): void {
    this.#cancel = this.#rules.later(ms, () => {
      if (this.#open) this.#hush();
    });
  }

  /** Whoever has not answered is silent. */
  #hush(): void {
    this.#nodes.forEach((node, at) => {
      if (this.#votes[at] !== PENDING) return;
      this.#votes[at] = SILENT;
      node.doubted = true;
    });
    this.#end(this.#rules.decide(this.#votes));
  }

  #end(decision: D | null): void {
    this.#open = false;
    this.#cancel();
    this.#resolve({ decision, votes: this.#votes, whole: this.#whole });
  }
}

/** Somebody is pending who is not doubted, or the doubted are needed for a majority. */
function worthWaiting<A>(nodes: readonly Voter[], votes: readonly Vote<A>[]): boolean {
  let [pending, spoke] = [false, 0];
  for (const [at, vote] of votes.entries()) {
    if (vote !== PENDING) spoke += 1;
    else if (nodes[at]?.doubted === false) return true;
    else pending = true;
  }
  return pending && spoke < majorityOf(nodes.length);
}

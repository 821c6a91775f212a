// A state of the redlock model as a row of small numbers, so that millions of them can be copied and compared quickly, and where in
// the row everything is.

/** So many numbers follow a fence. */
export const ROOM = 1;
/** Holders are numbered from one. */
export const NOBODY = 0;

export const Phase = { Idle: 0, Proposing: 1, Holding: 2, Released: 3, GaveUp: 4, Lapsed: 5 } as const;
export type Phase = (typeof Phase)[keyof typeof Phase];
/** What became of a message to a node: not sent, on its way, and what the node said. */
export const Message = { None: 0, Sent: 1, Yes: 2, Low: 3, No: 4 } as const;
export const Mode = { Votes: 0, SitsOut: 1, Reads: 2 } as const;

export type State = Uint8Array;

interface AttemptAt {
  readonly phase: number;
  readonly round: number;
  /** The last number that was used, once it has let go. */
  readonly used: number;
  /** Who had been granted before it began, a bit each. */
  readonly before: number;
  /** The largest fence that others had when its renewal was sent. */
  readonly renewBound: number;
  readonly confirmed: number;
  /** One per proposal. */
  readonly fences: number;
}

interface NodeAt {
  readonly c: number;
  readonly holder: number;
  readonly fence: number;
  readonly mode: number;
  /** It was read by the node that forgot. */
  readonly read: number;
}

/** What one node and one attempt have said to each other. */
interface TalkAt {
  /** Per proposal a message, and what a refusal said. */
  readonly proposals: number;
  readonly ending: number;
  readonly renewal: number;
  /** The node accepted before it forgot. */
  readonly before: number;
  /** For nodes that number by themselves. */
  readonly number: number;
}

export interface At {
  readonly talk: TalkAt;
}

const HEAD = 2;
const ATTEMPT = 6;
const NODE = 5;
const TALK = 4;

export class Layout {
  readonly forgot = 0;
  readonly floor = 1;
  readonly #attempts: readonly AttemptAt[];
  readonly #nodes: readonly NodeAt[];
  readonly #talks: readonly (readonly TalkAt[])[];
  readonly #columnsFrom: number;
  readonly #columnLength: number;
  readonly #length: number;

  constructor({ nodes, attempts, proposals }: { nodes: number; attempts: number; proposals: number }) {
    this.#attempts = Array.from({ length: attempts }, (_none, who) => {
      const at = HEAD + who * (ATTEMPT + proposals);
      return {
        phase: at,
        round: at + 1,
        used: at + 2,
        before: at + 3,
        renewBound: at + 4,
        confirmed: at + 5,
        fences: at + ATTEMPT,
      };
    });
    const talkLength = TALK + 2 * proposals;
    this.#columnsFrom = HEAD + attempts * (ATTEMPT + proposals);
    this.#columnLength = NODE + attempts * talkLength;
    this.#length = this.#columnsFrom + nodes * this.#columnLength;
    const columns = Array.from(
      { length: nodes },
      (_none, node) => this.#columnsFrom + node * this.#columnLength,
    );
    this.#nodes = columns.map((at) => ({ c: at, holder: at + 1, fence: at + 2, mode: at + 3, read: at + 4 }));
    this.#talks = columns.map((column) =>
      Array.from({ length: attempts }, (_none, who) => {
        const at = column + NODE + who * talkLength;
        return { ending: at, renewal: at + 1, before: at + 2, number: at + 3, proposals: at + TALK };
      }),
    );
  }

  start(): State {
    return new Uint8Array(this.#length);
  }

  attempt(who: number): AttemptAt {
    return this.#attempts[who] as AttemptAt;
  }

  node(node: number): NodeAt {
    return this.#nodes[node] as NodeAt;
  }

  nodes(): readonly NodeAt[] {
    return this.#nodes;
  }

  talk(node: number, who: number): TalkAt {
    return this.#talks[node]?.[who] as TalkAt;
  }

  /** Of one attempt with all nodes. */
  talks(who: number): TalkAt[] {
    return this.#talks.map((talks) => talks[who] as TalkAt);
  }

  /** Of the last proposal. */
  fenceOf(state: State, who: number): number {
    const { fences, round } = this.attempt(who);
    return state[fences + (state[round] as number)] as number;
  }

  /** Nodes are interchangeable: their columns are put in order. */
  key(state: State): string {
    const text = Buffer.from(state.buffer, state.byteOffset, state.length).toString("latin1");
    const columns: string[] = [];
    for (let at = this.#columnsFrom; at < this.#length; at += this.#columnLength) {
      columns.push(text.slice(at, at + this.#columnLength));
    }
    return text.slice(0, this.#columnsFrom) + columns.sort().join("");
  }
}

// The redlock algorithm as a small model: attempts that propose fences to nodes over a network that delays and reorders for ever, so
// that loss is a message which never arrives. Two readings of time:
//
// - "none": a node may drop a holder at any moment. Whatever clocks do, fences must not be equal or reversed, and a holder
//   must not be confirmed after a larger fence was granted.
// - "honest": a node drops a holder only when that one no longer believes. Then no two may believe at once.
//
// One node may forget everything once, or have its clock jump, which clients see in its next answer. Nodes
// are interchangeable, and states that differ only in their order are one state.

import type { Model, Step } from "./explore.ts";
import { type At, Layout, Message, Mode, NOBODY, Phase, ROOM, type State } from "./redlock-state.ts";

export const MISTAKES = {
  "counter-per-node": "each node numbers by itself, and the largest number of a majority is the fence",
  "lower-counted": "what was accepted of a lower proposal still counts",
  "late-counted": "an acceptance that comes after giving up still counts",
  "renewal-recreates": "a renewal recreates what is gone",
  "forgotten-counter": "a node that forgot votes at once",
  "jumped-node-votes": "a node whose clock jumped, and which ended a lease early, votes on",
  "counter-expires": "the counter of a key that nobody holds expires by the clock of its node",
  "reads-first": "a node that forgot reads the others first and sits out after",
  "room-forgotten": "the numbers that follow a fence are not recorded",
  "release-returns-all": "a release returns numbers that were used",
} as const;
export type Mistake = keyof typeof MISTAKES;

export interface RedlockModelSettings {
  readonly nodes: number;
  readonly attempts: number;
  readonly time: "none" | "honest";
  /** How often one attempt may propose. */
  readonly proposals: number;
  readonly renewals: boolean;
  readonly forgetting: boolean;
  /** What one node forgets is who holds and what has ended, not its counter: its clock jumped. */
  readonly jumping?: boolean;
  readonly mistake?: Mistake;
}

/** Where clocks may start: the same, inside of the other's room, beyond it. The first has the lowest, since all are alike. */
const CLOCKS = [1, 2, 3] as const;

export function redlockModel(settings: RedlockModelSettings): Model<State> {
  const layout = new Layout(settings);
  const rules = new Rules(settings, layout);
  return { start: layout.start(), next: (state) => rules.next(state), key: (state) => layout.key(state) };
}

function votesAtOnce(mistake: Mistake | undefined): boolean {
  return mistake === "forgotten-counter" || mistake === "jumped-node-votes";
}

class Rules {
  readonly #settings: RedlockModelSettings;
  readonly #at: Layout;
  readonly #majority: number;
  readonly #room: number;
  readonly #canForget: boolean;
  #steps: Step<State>[] = [];

  constructor(settings: RedlockModelSettings, layout: Layout) {
    this.#settings = settings;
    this.#at = layout;
    this.#majority = Math.floor(settings.nodes / 2) + 1;
    this.#canForget = settings.forgetting || settings.jumping === true;
    this.#room = settings.mistake === "room-forgotten" ? 0 : ROOM;
  }

  next(state: State): readonly Step<State>[] {
    this.#steps = [];
    if (!this.#canBreak(state)) return this.#steps;
    for (let who = 0; who < this.#settings.attempts; who += 1) this.#attemptSteps(state, who);
    for (let node = 0; node < this.#settings.nodes; node += 1) this.#nodeSteps(state, node);
    return this.#steps;
  }

  /** Every property speaks of two grants: where there can be no second one there is nothing more to see. */
  #canBreak(state: State): boolean {
    const { attempts, mistake, renewals } = this.#settings;
    let [granted, open] = [0, 0];
    for (let who = 0; who < attempts; who += 1) {
      const { phase } = this.#at.attempt(who);
      if (this.#top(state, who) > 0) granted += 1;
      const late = mistake === "late-counted" && state[phase] === Phase.GaveUp;
      if (state[phase] === Phase.Idle || state[phase] === Phase.Proposing || late) open += 1;
    }
    const renewing =
      renewals &&
      granted > 1 &&
      Array.from({ length: attempts }, (_none, who) => this.#at.attempt(who)).some(
        (one) => state[one.phase] === Phase.Holding && state[one.confirmed] === 0,
      );
    return renewing || (open > 0 && granted + open > 1);
  }

  /** `change` works on a copy; what it returns is the property that it broke. */
  #step(state: State, name: string, change: (copy: State) => string | undefined | void): void {
    const copy = state.slice();
    const broken = change(copy);
    this.#forgetTheDead(copy);
    this.#steps.push(typeof broken === "string" ? { name, state: copy, broken } : { name, state: copy });
  }

  #attemptSteps(state: State, who: number): void {
    const { mistake, proposals, renewals, time } = this.#settings;
    const own = this.#at.attempt(who);
    const phase = state[own.phase];
    const fence = this.#at.fenceOf(state, who);
    if (phase === Phase.Idle) this.#begins(state, who);
    if (phase === Phase.Proposing) {
      const round = state[own.round] as number;
      if (round + 1 < proposals)
        for (const low of this.#lows(state, who, round)) this.#again(state, who, low);
      this.#step(state, `${who} gives up`, (copy) => this.#lets(copy, who, Phase.GaveUp, fence));
    }
    const counts = phase === Phase.Proposing || (mistake === "late-counted" && phase === Phase.GaveUp);
    if (counts && this.#accepted(state, who) >= this.#majority) this.#granted(state, who);
    if (phase !== Phase.Holding) return;
    for (const used of [fence, fence + ROOM]) {
      this.#step(state, `${who} releases, having used ${used}`, (copy) =>
        this.#lets(copy, who, Phase.Released, used),
      );
    }
    if (time === "honest") {
      this.#step(state, `${who} lapses`, (copy) => {
        copy[own.phase] = Phase.Lapsed;
      });
    }
    if (renewals) this.#renews(state, who);
  }

  #begins(state: State, who: number): void {
    const own = this.#at.attempt(who);
    for (const clock of who === 0 ? CLOCKS.slice(0, 1) : CLOCKS) {
      this.#step(state, `${who} proposes ${clock}`, (copy) => {
        copy[own.phase] = Phase.Proposing;
        copy[own.fences] = clock;
        for (const other of this.#others(who)) {
          if (this.#top(copy, other) > 0) copy[own.before] = (copy[own.before] as number) | (1 << other);
        }
        this.#toAll(copy, who, (talk) => talk.proposals);
      });
    }
  }

  #again(state: State, who: number, low: number): void {
    const own = this.#at.attempt(who);
    this.#step(state, `${who} proposes again, above ${low}`, (copy) => {
      const next = Math.max(low, this.#at.fenceOf(copy, who)) + 1;
      const round = (copy[own.round] as number) + 1;
      copy[own.round] = round;
      copy[own.fences + round] = next;
      this.#toAll(copy, who, (talk) => talk.proposals + 2 * round);
    });
  }

  /** What refusals of this round have said. */
  #lows(state: State, who: number, round: number): Set<number> {
    const lows = new Set<number>();
    for (let node = 0; node < this.#settings.nodes; node += 1) {
      const at = this.#at.talk(node, who).proposals + 2 * round;
      if (state[at] === Message.Low) lows.add(state[at + 1] as number);
    }
    return lows;
  }

  #accepted(state: State, who: number): number {
    const round = state[this.#at.attempt(who).round] as number;
    const first = this.#settings.mistake === "lower-counted" ? 0 : round;
    let found = 0;
    for (let node = 0; node < this.#settings.nodes; node += 1) {
      const { proposals } = this.#at.talk(node, who);
      for (let one = first; one <= round; one += 1) {
        if (state[proposals + 2 * one] !== Message.Yes) continue;
        found += 1;
        break;
      }
    }
    return found;
  }

  #granted(state: State, who: number): void {
    const own = this.#at.attempt(who);
    this.#step(state, `${who} is granted`, (copy) => {
      copy[own.phase] = Phase.Holding;
      if (this.#settings.mistake === "counter-per-node") {
        copy[own.fences] = Math.max(...this.#at.talks(who).map((talk) => copy[talk.number] as number));
      }
      const believing = this.#others(who).some(
        (other) => copy[this.#at.attempt(other).phase] === Phase.Holding,
      );
      if (this.#settings.time === "honest" && believing) return "two believe at once";
      return this.#fenceMistake(copy, who);
    });
  }

  /** Two grants have numbers of their own, and the one that began later has the larger ones. */
  #fenceMistake(state: State, who: number): string | undefined {
    const fence = this.#at.fenceOf(state, who);
    const before = state[this.#at.attempt(who).before] as number;
    for (const other of this.#others(who)) {
      const top = this.#top(state, other);
      if (top === 0) continue;
      const theirs = this.#at.fenceOf(state, other);
      if ((before & (1 << other)) !== 0 && fence <= top) return `fence ${fence} came after ${top}`;
      if (fence <= top && theirs <= fence + ROOM) return `fences ${fence} and ${theirs} meet`;
    }
    return undefined;
  }

  #renews(state: State, who: number): void {
    const own = this.#at.attempt(who);
    const talks = this.#at.talks(who);
    if (talks.every(({ renewal }) => state[renewal] === Message.None)) {
      this.#step(state, `${who} renews`, (copy) => {
        const theirs = this.#others(who).filter((other) => this.#top(copy, other) > 0);
        copy[own.renewBound] = Math.max(0, ...theirs.map((other) => this.#at.fenceOf(copy, other)));
        this.#toAll(copy, who, (talk) => talk.renewal);
      });
    }
    const yes = talks.filter(({ renewal }) => state[renewal] === Message.Yes).length;
    if (yes < this.#majority || state[own.confirmed] === 1) return;
    this.#step(state, `${who} is confirmed`, (copy) => {
      copy[own.confirmed] = 1;
      const larger = (copy[own.renewBound] as number) > this.#at.fenceOf(copy, who);
      return larger ? "renewed after a larger fence was granted" : undefined;
    });
  }

  #nodeSteps(state: State, node: number): void {
    const { c, holder } = this.#at.node(node);
    for (let who = 0; who < this.#settings.attempts; who += 1) {
      const talk = this.#at.talk(node, who);
      for (let round = 0; round < this.#settings.proposals; round += 1) {
        if (state[talk.proposals + 2 * round] !== Message.Sent) continue;
        this.#step(state, `proposal ${round + 1} of ${who} arrives at ${node}`, (copy) =>
          this.#arrives(copy, node, who, round),
        );
      }
      if (state[talk.ending] === Message.Sent)
        this.#step(state, `the end of ${who} arrives at ${node}`, (copy) => this.#ends(copy, node, who));
      if (state[talk.renewal] === Message.Sent)
        this.#step(state, `the renewal of ${who} arrives at ${node}`, (copy) =>
          this.#renewed(copy, node, who),
        );
    }
    if (state[holder] !== NOBODY && this.#mayExpire(state, (state[holder] as number) - 1)) {
      this.#step(state, `the holder expires at ${node}`, (copy) => {
        copy[holder] = NOBODY;
      });
    }
    if (this.#settings.mistake === "counter-expires" && state[holder] === NOBODY && state[c] !== 0) {
      this.#step(state, `the counter expires at ${node}`, (copy) => {
        copy[c] = 0;
      });
    }
    if (this.#canForget) this.#forgetting(state, node);
  }

  #mayExpire(state: State, who: number): boolean {
    if (this.#settings.time === "none") return true;
    const phase = state[this.#at.attempt(who).phase];
    return phase !== Phase.Holding && phase !== Phase.Proposing;
  }

  /** The rule of a node: free or mine, and larger than all it has accepted. */
  #arrives(copy: State, node: number, who: number, round: number): void {
    const { c, holder, fence, mode } = this.#at.node(node);
    const { proposals, number } = this.#at.talk(node, who);
    const at = proposals + 2 * round;
    const proposed = copy[this.#at.attempt(who).fences + round] as number;
    const mine = copy[holder] === who + 1;
    copy[at] = Message.No;
    if (copy[mode] !== Mode.Votes) return;
    if (copy[holder] !== NOBODY && !mine) return;
    const own = mine && copy[c] === (copy[fence] as number) + this.#room;
    const accepted = (own ? copy[fence] : copy[c]) as number;
    if (this.#settings.mistake === "counter-per-node") {
      copy[c] = (copy[c] as number) + 1;
      copy[number] = copy[c] as number;
    } else if (proposed <= accepted) {
      copy[at] = Message.Low;
      copy[at + 1] = accepted;
      return;
    } else copy[c] = proposed + this.#room;
    copy[at] = Message.Yes;
    copy[holder] = who + 1;
    copy[fence] = proposed;
  }

  #ends(copy: State, node: number, who: number): void {
    const { c, holder, fence } = this.#at.node(node);
    const own = this.#at.attempt(who);
    copy[this.#at.talk(node, who).ending] = Message.Yes;
    const isHeld = copy[holder] === who + 1;
    if (isHeld) copy[holder] = NOBODY;
    if (this.#settings.mistake === "counter-per-node") return;
    const [top, held] = [copy[c] as number, copy[fence] as number];
    const used = this.#settings.mistake === "release-returns-all" ? held : (copy[own.used] as number);
    if (isHeld && top === held + this.#room) copy[c] = Math.min(top, Math.max(held, used));
    // A proposal of it that arrives later is too low.
    copy[c] = Math.max(copy[c] as number, this.#at.fenceOf(copy, who));
  }

  #renewed(copy: State, node: number, who: number): void {
    const { holder, fence, mode } = this.#at.node(node);
    const own = this.#at.fenceOf(copy, who);
    if (this.#settings.mistake === "renewal-recreates" && copy[holder] === NOBODY) {
      copy[holder] = who + 1;
      copy[fence] = own;
    }
    const yes = copy[mode] === Mode.Votes && copy[holder] === who + 1 && copy[fence] === own;
    copy[this.#at.talk(node, who).renewal] = yes ? Message.Yes : Message.No;
  }

  #forgetting(state: State, node: number): void {
    const { mistake, nodes } = this.#settings;
    const { mode } = this.#at.node(node);
    if (state[this.#at.forgot] === 0) {
      this.#step(state, `${node} forgets`, (copy) => this.#forgets(copy, node));
      return;
    }
    const out = this.#at.nodes().find((one) => state[one.mode] !== Mode.Votes);
    if (out === undefined) return;
    const own = this.#at.node(node);
    const first = mistake === "reads-first";
    if (own.mode !== out.mode) {
      if (state[own.read] === 1 || (state[out.mode] !== Mode.Reads && !first)) return;
      this.#step(state, `${node} is read`, (copy) => {
        copy[own.read] = 1;
        copy[this.#at.floor] = Math.max(copy[this.#at.floor] as number, copy[own.c] as number);
      });
      return;
    }
    const enough = this.#at.nodes().filter(({ read }) => state[read] === 1).length > nodes - this.#majority;
    if (state[mode] === Mode.SitsOut && this.#hasSatOut(state, node) && (!first || enough)) {
      this.#step(state, `${node} has sat out`, (copy) => {
        copy[mode] = Mode.Reads;
      });
    }
    if (state[mode] === Mode.Reads && enough) {
      this.#step(state, `${node} votes again`, (copy) => {
        copy[mode] = Mode.Votes;
        copy[own.c] = Math.max(copy[own.c] as number, copy[this.#at.floor] as number);
      });
    }
  }

  #forgets(copy: State, node: number): void {
    const { c, holder, mode } = this.#at.node(node);
    const held = copy[holder];
    copy[this.#at.forgot] = 1;
    if (this.#settings.jumping !== true) copy[c] = 0;
    copy[holder] = NOBODY;
    copy[mode] = votesAtOnce(this.#settings.mistake) ? Mode.Votes : Mode.SitsOut;
    for (let who = 0; who < this.#settings.attempts; who += 1) {
      const talk = this.#at.talk(node, who);
      if (held === who + 1) copy[talk.before] = 1;
      for (let round = 0; round < this.#settings.proposals; round += 1) {
        if (copy[talk.proposals + 2 * round] === Message.Yes) copy[talk.before] = 1;
      }
      // The counter that rejects late proposals is forgotten too, unless only the clock jumped.
      if (this.#settings.jumping !== true && copy[talk.ending] === Message.Yes)
        copy[talk.ending] = Message.No;
    }
  }

  /** Longer than any lease and any attempt: whatever it accepted before is decided, and over where time is honest. */
  #hasSatOut(state: State, node: number): boolean {
    for (let who = 0; who < this.#settings.attempts; who += 1) {
      if (state[this.#at.talk(node, who).before] === 0) continue;
      const phase = state[this.#at.attempt(who).phase];
      if (phase === Phase.Proposing) return false;
      if (phase === Phase.Holding && this.#settings.time === "honest") return false;
    }
    return true;
  }

  #lets(copy: State, who: number, phase: Phase, used: number): void {
    const own = this.#at.attempt(who);
    copy[own.phase] = phase;
    copy[own.used] = used;
    this.#toAll(copy, who, (talk) => talk.ending);
  }

  #toAll(copy: State, who: number, which: (talk: At["talk"]) => number): void {
    for (const talk of this.#at.talks(who)) copy[which(talk)] = Message.Sent;
  }

  #others(who: number): number[] {
    return Array.from({ length: this.#settings.attempts }, (_none, at) => at).filter((at) => at !== who);
  }

  /** What nothing can depend on any more is wiped out, so that states which differ in nothing else are one. */
  #forgetTheDead(copy: State): void {
    const { mistake, attempts, nodes, proposals } = this.#settings;
    for (let who = 0; who < attempts; who += 1) {
      const own = this.#at.attempt(who);
      const [phase, round] = [copy[own.phase], copy[own.round] as number];
      const counting = phase === Phase.Proposing || mistake === "late-counted";
      const renewing = phase === Phase.Holding && copy[own.confirmed] === 0;
      const open = Array.from({ length: proposals }, () => false);
      let ending = false;
      for (let node = 0; node < nodes; node += 1) {
        const talk = this.#at.talk(node, who);
        for (let one = 0; one < proposals; one += 1) {
          const at = talk.proposals + 2 * one;
          const heard = counting && (one === round || mistake === "lower-counted");
          if (copy[at] === Message.Sent && copy[talk.ending] === Message.Yes && copy[this.#at.forgot] === 1)
            open[one] = true;
          else if (copy[at] === Message.Sent && copy[talk.ending] === Message.Yes && !this.#canForget)
            copy[at] = Message.No;
          else if (copy[at] === Message.Sent) open[one] = true;
          else if (!heard && copy[at] !== Message.None) copy[at] = Message.No;
          if (copy[at] !== Message.Low) copy[at + 1] = 0;
        }
        this.#forgetTheEnd(copy, node, who);
        ending ||= copy[talk.ending] === Message.Sent;
        const recreates = mistake === "renewal-recreates" && copy[talk.renewal] === Message.Sent;
        if (!renewing && !recreates && copy[talk.renewal] !== Message.None) copy[talk.renewal] = Message.No;
        if (phase !== Phase.Proposing && phase !== Phase.Holding) copy[talk.before] = 0;
      }
      open.forEach((isOpen, one) => {
        if (!isOpen && one < round) copy[own.fences + one] = 0;
      });
      if (!ending && phase === Phase.GaveUp && !open.includes(true)) {
        copy[own.used] = 0;
        if (mistake !== "late-counted") copy[own.fences + round] = 0;
      }
      if (!renewing) copy[own.renewBound] = 0;
      if (phase !== Phase.Idle && phase !== Phase.Proposing) copy[own.before] = 0;
    }
    const done =
      copy[this.#at.forgot] === 1 && this.#at.nodes().every(({ mode }) => copy[mode] === Mode.Votes);
    if (done) copy[this.#at.floor] = 0;
    for (const { holder, fence, read } of this.#at.nodes()) {
      if (copy[holder] === NOBODY) copy[fence] = 0;
      if (done) copy[read] = 0;
    }
  }

  /** An end that can change nothing: nothing is held there, and nothing is on its way. */
  #forgetTheEnd(copy: State, node: number, who: number): void {
    const talk = this.#at.talk(node, who);
    if (copy[talk.ending] === Message.None || copy[this.#at.node(node).holder] === who + 1) return;
    for (let one = 0; one < this.#settings.proposals; one += 1) {
      if (copy[talk.proposals + 2 * one] === Message.Sent) return;
    }
    const recreated = this.#settings.mistake === "renewal-recreates" && copy[talk.renewal] === Message.Sent;
    if (!recreated) copy[talk.ending] = Message.None;
  }

  /** The last number that a grant may have used; 0 where there is none. */
  #top(state: State, who: number): number {
    const own = this.#at.attempt(who);
    const phase = state[own.phase];
    if (phase === Phase.Released) return state[own.used] as number;
    const granted = phase === Phase.Holding || phase === Phase.Lapsed;
    return granted ? this.#at.fenceOf(state, who) + ROOM : 0;
  }
}

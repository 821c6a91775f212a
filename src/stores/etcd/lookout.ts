// Looks after calls that take long. A call may hang although its member answers: what a member hands to a
// leader that is gone is lost without a word. So the member is asked for the term of its leader. No answer,
// or no leader: another member is taken. Another term than before: older calls are lost. Either way whoever
// waits is told at once instead of at the end of its patience.

import type { System } from "../../core/system.ts";
import type { Member } from "./member.ts";
import type { Patience } from "./port.ts";

/** A call that takes longer than this is looked after. */
const PATIENCE_MS = 200;
/** A member that does not even answer by itself within this time stands still. */
const SILENCE_MS = 500;

/** The term of the leader that a member knows of, or why it did not tell. */
export type Pulse = bigint | "silent" | "no leader" | "refused";

export interface LookoutDeps {
  current(): Member | null;
  pulseOf(member: Member, io: Patience): Promise<Pulse>;
  drop(member: Member): void;
}

export class Lookout {
  readonly #system: System;
  readonly #deps: LookoutDeps;
  #looking = false;
  #questioned: Member | null = null;

  constructor(system: System, deps: LookoutDeps) {
    this.#system = system;
    this.#deps = deps;
  }

  /** Calls are under way. One timer, however many there are. */
  watchOver(): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#system.after(PATIENCE_MS, () => void this.#look(), "background");
  }

  async #look(): Promise<void> {
    const member = this.#deps.current();
    const sinceMs = member?.waitingSinceMs ?? null;
    if (member !== null && sinceMs !== null && this.#system.monoMs() - sinceMs >= PATIENCE_MS) {
      await this.question(member);
    }
    this.#looking = false;
    if (member !== null && member.waitingSinceMs !== null) this.watchOver();
  }

  /** Something speaks against this member, or only against the machine: a busy one answers late. It is dropped if it deserves it. */
  async question(member: Member): Promise<void> {
    if (this.#questioned === member || member.dropped) return;
    this.#questioned = member;
    try {
      await this.#question(member);
    } finally {
      this.#questioned = null;
    }
  }

  async #question(member: Member): Promise<void> {
    const askedAtMs = this.#system.monoMs();
    const patience = new AbortController();
    const cancel = this.#system.after(SILENCE_MS, () => patience.abort(), "background");
    const pulse = await this.#deps.pulseOf(member, patience);
    cancel();
    if (pulse === "silent" || pulse === "no leader") {
      this.#deps.drop(member);
      const why = pulse === "silent" ? "stands still" : "knows no leader";
      member.giveUp(askedAtMs, `${member.endpoint} ${why}`);
    } else if (pulse !== "refused" && pulse !== member.term) {
      member.term = pulse;
      member.giveUp(askedAtMs, "the leader of the cluster has changed");
    }
  }
}

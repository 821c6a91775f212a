// Who waits and holds. An actor is the scope of a `using`, `once` or `lead` callback, or what `within` names; a bare `acquire`
// outside of one is an actor of its own, because it cannot mark the context of its caller: set after the grant the mark never
// reaches the caller, set before it would mark every unrelated task too.
//
// Scopes lie inside each other. Whoever waits in one keeps its own leases and those of the scopes around it from being
// let go, but not those of a scope beside it: siblings of `Promise.all` may wait for each other's keys like strangers.

import { AsyncLocalStorage } from "node:async_hooks";
import type { HeldLease } from "./lease.ts";

const scopes = new AsyncLocalStorage<Actor>();
let made = 0;

/** What an actor has in hand: a lease, or a re-entry into some. */
export interface InHand {
  readonly sections: readonly HeldLease[];
}

export class Actor {
  /** For records and people; unique within the process. */
  readonly name: string;
  readonly #outer: Actor | null;
  readonly #inHand = new Set<InHand>();

  constructor(processLabel: string, outer: Actor | null = null) {
    made += 1;
    this.name = `${processLabel}#${made}`;
    this.#outer = outer;
  }

  add(lease: InHand): void {
    this.#inHand.add(lease);
  }

  delete(lease: InHand): void {
    this.#inHand.delete(lease);
  }

  /** What is certainly held in this scope and in those around it, the innermost first. */
  sections(): HeldLease[] {
    if (this.#outer === null) return this.#own();
    return [...new Set([...this.#own(), ...this.#outer.sections()])];
  }

  /** The nearest scope that still holds something: one whose leases have all ended is none, and a detached task that outlived it is on its own. */
  get live(): Actor | null {
    return this.#own().length > 0 ? this : (this.#outer?.live ?? null);
  }

  /** Whether one of these scopes is this one or lies around it. */
  isInside(some: { has(actor: Actor): boolean }): boolean {
    return some.has(this) || (this.#outer?.isInside(some) ?? false);
  }

  #own(): HeldLease[] {
    if (this.#inHand.size === 0) return [];
    return [...this.#inHand].flatMap((lease) => lease.sections.filter((section) => section.sectionMs > 0));
  }

  /** Runs `fn` as this actor. */
  run<T>(fn: () => T): T {
    return scopes.run(this, fn);
  }

  /** The surrounding scope, whether or not it still holds anything. */
  static scope(): Actor | null {
    return scopes.getStore() ?? null;
  }

  /** The actor of the surrounding scope. */
  static current(): Actor | null {
    return scopes.getStore()?.live ?? null;
  }
}

// Actors: the units that hold and wait. Every call is an actor of its own. The callback of `using`,
// `once` or `elect` runs as that actor; a plain `acquire` only holds its lease as that actor. An actor is
// nested in the scope in which its call was made, or in the actor of the lease that `within` names.
//
// While a nested call waits, the actors around it cannot release their leases, but an actor beside it
// can. Siblings in one scope, such as tasks of `Promise.all`, therefore wait for each other's keys like
// unrelated callers. Only a key that the call's own chain of actors holds counts as re-entry or as a
// self-deadlock.

import { AsyncLocalStorage } from "node:async_hooks";
import type { HeldLease } from "./lease.ts";

const scopes = new AsyncLocalStorage<Actor>();
let made = 0;

/** What an actor holds: a lease, or a re-entry. */
export interface Holding {
  readonly sections: readonly HeldLease[];
}

export class Actor {
  /** The name in records and errors. Unique within the process. */
  readonly name: string;
  readonly #outer: Actor | null;
  /** The first lease. Most actors hold only one, so a set is made only for more. */
  #first: Holding | null = null;
  #others: Set<Holding> | null = null;

  constructor(processLabel: string, outer: Actor | null = null) {
    made += 1;
    this.name = `${processLabel}#${made}`;
    this.#outer = outer;
  }

  /** Whether the actor is nested in another one. */
  get isNested(): boolean {
    return this.#outer !== null;
  }

  add(lease: Holding): void {
    if (this.#first === null && this.#others === null) this.#first = lease;
    else (this.#others ??= new Set()).add(lease);
  }

  delete(lease: Holding): void {
    if (this.#first === lease) this.#first = null;
    else this.#others?.delete(lease);
  }

  /** The leases that this actor and those around it certainly hold, the innermost first. */
  sections(): HeldLease[] {
    if (this.#outer === null) return this.#own();
    const sections = new Set(this.#own());
    for (let actor: Actor | null = this.#outer; actor !== null; actor = actor.#outer) {
      for (const section of actor.#own()) sections.add(section);
    }
    return [...sections];
  }

  /** The nearest actor that still holds a lease. A task that outlives its scope is no longer nested in it. */
  get live(): Actor | null {
    return this.#own().length > 0 ? this : (this.#outer?.live ?? null);
  }

  /** Whether one of these actors is this one or surrounds it. */
  isInside(some: { has(actor: Actor): boolean }): boolean {
    return some.has(this) || (this.#outer?.isInside(some) ?? false);
  }

  #own(): HeldLease[] {
    if (this.#first === null && this.#others === null) return [];
    const inHand = [...(this.#first === null ? [] : [this.#first]), ...(this.#others ?? [])];
    return inHand.flatMap((lease) => lease.sections.filter((section) => section.leftMs > 0));
  }

  /** Runs `fn` as this actor. */
  run<T>(fn: () => T): T {
    return scopes.run(this, fn);
  }

  /** The surrounding scope, also if it holds nothing any more. */
  static scope(): Actor | null {
    return scopes.getStore() ?? null;
  }

  /** The actor of the surrounding scope. */
  static current(): Actor | null {
    return scopes.getStore()?.live ?? null;
  }
}

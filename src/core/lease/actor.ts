// Who waits and holds. Every call is an actor of its own: the callback of `using`, `once` or `lead` runs as
// that actor, and a plain `acquire` only holds its lease as one. An actor is nested in the scope in which
// its call was made, or in the actor of the lease that `within` names.
//
// Whoever waits keeps the leases of the actors around it from being released, but not those of an actor
// beside it. Siblings in one scope, such as tasks of `Promise.all` or requests to a server that was started
// in it, therefore wait for each other's keys like unrelated callers. Only what a call's own chain of
// actors holds counts as re-entry, and only asking for that is a deadlock of the call with itself.

import { AsyncLocalStorage } from "node:async_hooks";
import type { HeldLease } from "./lease.ts";

const scopes = new AsyncLocalStorage<Actor>();
let made = 0;

/** What an actor has in hand: a lease, or a re-entry into some. */
export interface Holding {
  readonly sections: readonly HeldLease[];
}

export class Actor {
  /** For records and people; unique within the process. */
  readonly name: string;
  readonly #outer: Actor | null;
  /** Most actors hold one lease: only further ones need a set. */
  #first: Holding | null = null;
  #others: Set<Holding> | null = null;

  constructor(processLabel: string, outer: Actor | null = null) {
    made += 1;
    this.name = `${processLabel}#${made}`;
    this.#outer = outer;
  }

  /** Whether it lies inside another one. */
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

  /** What is certainly held by this actor and by those around it, the innermost first. */
  sections(): HeldLease[] {
    if (this.#outer === null) return this.#own();
    const sections = new Set(this.#own());
    for (let actor: Actor | null = this.#outer; actor !== null; actor = actor.#outer) {
      for (const section of actor.#own()) sections.add(section);
    }
    return [...sections];
  }

  /** The nearest actor that still holds something. A task that outlived its scope is on its own. */
  get live(): Actor | null {
    return this.#own().length > 0 ? this : (this.#outer?.live ?? null);
  }

  /** Whether one of these scopes is this one or lies around it. */
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

  /** The surrounding scope, whether or not it still holds anything. */
  static scope(): Actor | null {
    return scopes.getStore() ?? null;
  }

  /** The actor of the surrounding scope. */
  static current(): Actor | null {
    return scopes.getStore()?.live ?? null;
  }
}

// Who waits and holds. An actor is the scope of a `using` or `once` callback, or what `within` names; a bare `acquire` is
// an actor of its own, because it cannot mark the context of its caller: set after the grant the mark never reaches the
// caller, set before it would mark every unrelated task too.

import { AsyncLocalStorage } from "node:async_hooks";
import type { HeldLease } from "./lease.ts";

const scopes = new AsyncLocalStorage<Actor>();
let made = 0;

export class Actor {
  /** For records and people; unique within the process. */
  readonly name: string;
  readonly #leases = new Set<HeldLease>();

  constructor(processLabel: string) {
    made += 1;
    this.name = `${processLabel}#${made}`;
  }

  add(lease: HeldLease): void {
    this.#leases.add(lease);
  }

  delete(lease: HeldLease): void {
    this.#leases.delete(lease);
  }

  /** A scope whose leases have all ended is none: a detached task that outlived it is on its own. */
  get live(): boolean {
    for (const lease of this.#leases) if (lease.held) return true;
    return false;
  }

  /** The lease by which this actor holds one of the keys of the same locks, if it does. */
  holding(owner: object, keys: readonly string[]): HeldLease | null {
    for (const lease of this.#leases) {
      if (lease.owner === owner && lease.held && lease.keys.some((key) => keys.includes(key))) return lease;
    }
    return null;
  }

  /** Runs `fn` as this actor. */
  run<T>(fn: () => T): T {
    return scopes.run(this, fn);
  }

  /** The actor of the surrounding scope. */
  static current(): Actor | null {
    const actor = scopes.getStore();
    return actor?.live ? actor : null;
  }
}

// What a case at the level of the public API works with: locks over the store under test, fresh keys, real time.

import { createLocks, type Guarantees, type Locks, type LocksOptions } from "../index.ts";
import { nodeSystem } from "../system/node.ts";
import type { Subject } from "./case.ts";

export class ApiContext {
  readonly guarantees: Guarantees;
  readonly namespace: string = `t-${nodeSystem.randomId().slice(0, 12)}`;
  /** What may be added to a bound: ten times what an idle machine needs. */
  readonly slackMs: number = 2_000;
  protected readonly subject: Subject;
  readonly #made = new Set<Locks>();
  #keys = 0;

  constructor(subject: Subject) {
    this.subject = subject;
    this.guarantees = subject.guarantees;
  }

  /** Locks with a store of their own, as another process would have them. */
  async locks(options: LocksOptions = {}): Promise<Locks> {
    const store = await this.subject.create();
    const locks = createLocks(store, { namespace: this.namespace, ...options });
    this.#made.add(locks);
    return locks;
  }

  key(name = "key"): string {
    this.#keys += 1;
    return `${name}-${this.#keys}`;
  }

  nowMs(): number {
    return nodeSystem.monoMs();
  }

  async end(): Promise<void> {
    await Promise.all([...this.#made].map((locks) => locks.close()));
  }
}

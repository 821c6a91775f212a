// Real masters for the tests of this folder, and stores over them.

import { createLocks, type Locks, type LocksOptions } from "../../../src/index.ts";
import { redlock, type RedlockOptions } from "../../../src/stores/redlock/index.ts";
import { Masters } from "./subject.ts";

export { Masters } from "./subject.ts";

export class World {
  readonly masters: Masters;
  readonly #made = new Set<Locks>();
  #names = 0;

  constructor(nodes = 5, args: readonly string[] = []) {
    this.masters = new Masters(nodes, args);
  }

  /** A namespace that nobody has used. */
  name(): string {
    this.#names += 1;
    return `w${this.#names}`;
  }

  locks(options: LocksOptions, more: Partial<RedlockOptions> = {}): Locks {
    const store = redlock({ nodes: this.masters.urls, driver: "ioredis", ...more });
    const locks = createLocks(store, { allow: ["fresh-nodes"], ...options });
    this.#made.add(locks);
    return locks;
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#made].map((locks) => locks.close({ drain: 0 })));
    this.#made.clear();
  }
}

/** The error that a call must end with. */
export async function failure(work: Promise<unknown>): Promise<Error> {
  const error: unknown = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof Error) return error;
  throw new Error("it should have failed");
}

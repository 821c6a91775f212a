// `createTestLocks`: real locks for the tests of an application, in virtual time and without a server. The
// test moves the time, and makes happen what is rare in production: a busy key, a lost lease, an outage.

import type { Locks } from "../core/api.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { HoldfastLocks } from "../core/locks.ts";
import {
  type CloseOptions,
  type Defaults,
  type LocksOptions,
  readCloseOptions,
  readLocksOptions,
} from "../core/options.ts";
import { TestStore } from "./test-store.ts";
import { VirtualSystem } from "./virtual-system.ts";

/** Locks for the tests of an application. */
export interface TestLocks extends Locks {
  /**
   * Moves the time of these locks: leases end, waits time out and renewals happen at their own moments, in
   * order. The clock of the machine and the fake timers of a test runner do not move.
   *
   * @example
   * await locks.advance(5_000);
   * @throws InvalidArgumentError unless `ms` is a finite number that is not negative.
   */
  advance(ms: number): Promise<void>;
  /**
   * Ends the lease that these locks have on the key, as if the store had lost it: `lease.signal` aborts and
   * `lease.held` is false when this call returns.
   *
   * @throws InvalidArgumentError if these locks do not hold the key.
   */
  lose(key: string): void;
  /**
   * Lets another process hold the key, and renew it, until the returned function is called. `by` is the label
   * of that holder.
   *
   * @default by "another process"
   * @throws InvalidArgumentError if the key is held.
   */
  busy(key: string, by?: string): () => void;
  /** Makes every call to the store fail, until the returned function is called. */
  storeDown(): () => void;
  /** As `close` of other locks. Virtual time passes by itself until all is closed. */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Locks for the tests of an application: no server, no waiting, and nothing in common with other instances.
 *
 * @example
 * const locks = createTestLocks();
 * locks.busy("order:42");
 * const rejected = expect(locks.acquire("order:42", { wait: "5s" })).rejects.toThrow(LockTimeoutError);
 * await locks.advance(5_000);
 * await rejected;
 * @throws InvalidArgumentError if an option is invalid.
 */
export function createTestLocks(options: LocksOptions = {}): TestLocks {
  return new VirtualLocks(readLocksOptions(options, "this process"));
}

/** A step of the time that passes while locks are closed. */
const CLOSING_STEP_MS = 100;
/** More than what closing takes after `drain`. The default of `drain` is within it. */
const CLOSING_MS = 60_000;

class VirtualLocks extends HoldfastLocks implements TestLocks {
  readonly #system: VirtualSystem;
  readonly #store: TestStore;

  constructor(defaults: Defaults) {
    const system = new VirtualSystem();
    const store = new TestStore(system, defaults.namespace);
    super(store, system, defaults);
    this.#system = system;
    this.#store = store;
  }

  async advance(ms: number): Promise<void> {
    if (!Number.isFinite(ms) || ms < 0)
      throw new InvalidArgumentError(`ms must be a finite number of at least 0, got ${String(ms)}`);
    await this.#system.advance(ms);
  }

  lose(key: string): void {
    this.#store.endLeases(key);
  }

  busy(key: string, by: string = "another process"): () => void {
    return this.#store.occupy(key, by);
  }

  storeDown(): () => void {
    return this.#store.takeDown();
  }

  override async close(options: CloseOptions = {}): Promise<void> {
    const drainMs = readCloseOptions(options) ?? 0;
    const endMs = CLOSING_MS + (Number.isFinite(drainMs) ? drainMs : 0);
    let isClosed = false;
    const closing = super.close(options).finally(() => {
      isClosed = true;
    });
    // A rejection is reported to the caller below, after the loop.
    closing.catch(() => {});
    await this.#system.settle();
    for (let passedMs = 0; !isClosed && passedMs < endMs; passedMs += CLOSING_STEP_MS)
      await this.#system.advance(CLOSING_STEP_MS);
    await closing;
  }
}

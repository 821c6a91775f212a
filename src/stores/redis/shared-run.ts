// One run for all callers that wait for it, such as connecting or finding the primary. A caller that gives up
// leaves the run to the others: starting it again for each of them would overload a machine that is only
// slow. A run that takes too long is cancelled, and the next caller starts another.

import type { HealthSystem } from "../shared/connection-health.ts";
import type { Patience } from "./port.ts";

/** As long as a connection may take. */
const LONGEST_MS = 2_000;
const QUIET = (): void => {};

interface Run<T> {
  readonly promise: Promise<T>;
  readonly sinceMs: number;
  readonly cancel: AbortController;
}

export class SharedRun<T> {
  readonly #system: HealthSystem;
  #run: Run<T> | null = null;

  constructor(system: HealthSystem) {
    this.#system = system;
  }

  /** Rejects when the caller has stopped listening. `start` ends early when its signal aborts. */
  async join(patience: Patience, start: (cancel: AbortSignal) => Promise<T>): Promise<T> {
    this.#run ??= this.#begin(start);
    const run = this.#run;
    try {
      return await within(patience, run.promise);
    } catch (error) {
      if (this.#run === run && this.#system.monoMs() - run.sinceMs >= LONGEST_MS) {
        this.#run = null;
        run.cancel.abort();
      }
      throw error;
    }
  }

  /** Nobody wants it any more. */
  cancel(): void {
    this.#run?.cancel.abort();
    this.#run = null;
  }

  #begin(start: (cancel: AbortSignal) => Promise<T>): Run<T> {
    const cancel = new AbortController();
    const run = { promise: start(cancel.signal), sinceMs: this.#system.monoMs(), cancel };
    const settled = (): void => {
      if (this.#run === run) this.#run = null;
    };
    run.promise.then(settled, settled);
    return run;
  }
}

/** As `promise`, but rejects when the caller has stopped listening. */
export function within<T>({ signal }: Patience, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new Error("there is no connection to Redis"));
    if (!signal.aborted) signal.addEventListener("abort", giveUp, { once: true });
    // Also where nobody waits for it any more: its failure must not go unhandled.
    promise
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", giveUp))
      .catch(QUIET);
    if (signal.aborted) giveUp();
  });
}

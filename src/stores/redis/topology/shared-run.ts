// One run for all callers that wait for it, such as connecting. A caller that gives up leaves the run to the
// others: starting it again for each of them would overload a machine that is only slow. A run that takes too
// long is cancelled, and the next caller starts another.

import type { CallContext } from "../../shared/retry-while-unsent.ts";

/** As long as a connection may take. */
const LONGEST_MS = 2_000;
const QUIET = (): void => {};

interface Run<T> {
  readonly promise: Promise<T>;
  readonly sinceMs: number;
  readonly cancel: AbortController;
}

export class SharedRun<T> {
  readonly #system: { monoMs(): number };
  #run: Run<T> | null = null;

  constructor(system: { monoMs(): number }) {
    this.#system = system;
  }

  /** Rejects when the caller has stopped listening. `start` ends early when its signal aborts. */
  async join(call: CallContext, start: (cancel: AbortSignal) => Promise<T>): Promise<T> {
    this.#run ??= this.#begin(start);
    const run = this.#run;
    try {
      return await abortable(call, run.promise);
    } catch (error) {
      if (this.#run === run && this.#system.monoMs() - run.sinceMs >= LONGEST_MS) this.cancel();
      throw error;
    }
  }

  cancel(): void {
    const run = this.#run;
    this.#run = null;
    run?.cancel.abort();
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
export function abortable<T>({ signal }: CallContext, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new Error("there is no connection to Redis"));
    if (!signal.aborted) signal.addEventListener("abort", giveUp, { once: true });
    // The failure of a promise that nobody waits for any more must not go unhandled.
    promise
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", giveUp))
      .catch(QUIET);
    if (signal.aborted) giveUp();
  });
}

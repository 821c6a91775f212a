// pg runs the statements of one connection one after another, and its version 9 rejects a statement while
// another one runs. Connections that several callers share therefore have a queue of our own.

export class StatementQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` when everything before it is over, however that ended. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }
}

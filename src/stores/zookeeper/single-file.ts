// Attempts of one request go one after another: two that look for its place at the same time find none, and make two.

export class SingleFile<T> {
  /** The last one of each id that has not ended yet. */
  readonly #last = new Map<string, Promise<T>>();

  async run(id: string, go: () => Promise<T>): Promise<T> {
    const earlier = this.#last.get(id);
    const own = earlier === undefined ? go() : earlier.then(go, go);
    this.#last.set(id, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(id) === own) this.#last.delete(id);
    }
  }
}

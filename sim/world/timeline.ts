// True time: one queue of things to come. Between two of them the event loop turns once, so that all promises settle.

interface Entry {
  readonly at: number;
  readonly order: number;
  fn: (() => void) | null;
}

export class Timeline {
  now = 0;
  events = 0;
  readonly #heap: Entry[] = [];
  #order = 0;

  at(time: number, fn: () => void): () => void {
    this.#order += 1;
    const entry: Entry = { at: Math.max(time, this.now), order: this.#order, fn };
    this.#push(entry);
    return () => {
      entry.fn = null;
    };
  }

  after(ms: number, fn: () => void): () => void {
    return this.at(this.now + ms, fn);
  }

  /** Runs everything that is due until `end`, then stands there. */
  async run(end: number): Promise<void> {
    await turn();
    for (let entry = this.#pop(end); entry !== null; entry = this.#pop(end)) {
      if (entry.fn === null) continue;
      this.now = entry.at;
      this.events += 1;
      entry.fn();
      await turn();
    }
    this.now = Math.max(this.now, end);
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let i = heap.push(entry) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!before(entry, heap[parent] as Entry)) break;
      heap[i] = heap[parent] as Entry;
      i = parent;
    }
    heap[i] = entry;
  }

  #pop(end: number): Entry | null {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.at > end) return null;
    const last = heap.pop() as Entry;
    if (heap.length === 0) return first;
    let i = 0;
    for (;;) {
      const left = 2 * i + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const child = right < heap.length && before(heap[right] as Entry, heap[left] as Entry) ? right : left;
      if (!before(heap[child] as Entry, last)) break;
      heap[i] = heap[child] as Entry;
      i = child;
    }
    heap[i] = last;
    return first;
  }
}

function before(a: Entry, b: Entry): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

// Entries ordered by a due time: a binary heap with lazy deletion. With n entries `set` and `delete` cost
// O(log n), mostly O(1), because a due time is usually later than all that are there; `takeDue` costs O(log
// n) per entry that it takes.
//
// A replaced or deleted entry stays in the heap as a stale node until it comes up or until stale nodes are
// the majority. Then the heap is rebuilt, which costs O(1) per deletion on average.

/** A heap this small is not worth rebuilding. */
const FEW_STALE = 64;

interface HeapNode<Entry> {
  readonly dueMs: number;
  /** A serial number, so that entries with the same due time keep their order. */
  readonly order: number;
  readonly entry: Entry;
}

export class DueQueue<Entry extends object> {
  readonly #nodes = new Map<Entry, HeapNode<Entry>>();
  #heap: HeapNode<Entry>[] = [];
  #order = 0;

  get size(): number {
    return this.#nodes.size;
  }

  /** Replaces an earlier due time of the entry. */
  set(entry: Entry, dueMs: number): void {
    this.#order += 1;
    const node = { dueMs, order: this.#order, entry };
    this.#nodes.set(entry, node);
    this.#push(node);
    this.#dropStale();
  }

  /** Removes an entry. Returns whether it existed. */
  delete(entry: Entry): boolean {
    const had = this.#nodes.delete(entry);
    if (had) this.#dropStale();
    return had;
  }

  /** The entry that is due first. */
  first(): { readonly entry: Entry; readonly dueMs: number } | undefined {
    for (let top = this.#heap[0]; top !== undefined; top = this.#heap[0]) {
      if (this.#nodes.get(top.entry) === top) return top;
      this.#pop();
    }
    return undefined;
  }

  /**
   * Removes and returns the entries that are due no later than `dueMs`, the earliest first, up to a
   * limit.
   */
  takeDue(dueMs: number, most: number = Number.POSITIVE_INFINITY): Entry[] {
    const due: Entry[] = [];
    while (due.length < most) {
      const first = this.first();
      if (first === undefined || first.dueMs > dueMs) break;
      this.#pop();
      this.#nodes.delete(first.entry);
      due.push(first.entry);
    }
    return due;
  }

  clear(): void {
    this.#nodes.clear();
    this.#heap = [];
  }

  #dropStale(): void {
    if (this.#heap.length <= 2 * this.#nodes.size + FEW_STALE) return;
    // A sorted array is a valid heap.
    this.#heap = [...this.#nodes.values()].sort((a, b) => (isBefore(a, b) ? -1 : 1));
  }

  #push(node: HeapNode<Entry>): void {
    const heap = this.#heap;
    let at = heap.length;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = heap[parentAt] as HeapNode<Entry>;
      if (isBefore(parent, node)) break;
      heap[at] = parent;
      at = parentAt;
    }
    heap[at] = node;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let childAt = 2 * at + 1;
      if (childAt >= heap.length) break;
      const right = heap[childAt + 1];
      if (right !== undefined && isBefore(right, heap[childAt] as HeapNode<Entry>)) childAt += 1;
      const child = heap[childAt] as HeapNode<Entry>;
      if (isBefore(last, child)) break;
      heap[at] = child;
      at = childAt;
    }
    heap[at] = last;
  }
}

function isBefore(a: HeapNode<unknown>, b: HeapNode<unknown>): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}

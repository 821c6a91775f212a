// Remembers the ids of released and abandoned requests for a while, so that a late attempt changes
// nothing (P8). There are two generations of ids. A minute after its start, or when it is full, a
// generation becomes the old one, and the previous old one is forgotten. Memory is therefore bounded.

const GENERATION_MS = 60_000;
const GENERATION_SIZE = 16_384;

export class EndedIds {
  #young = new Set<string>();
  #old = new Set<string>();
  #begunMs = Number.NEGATIVE_INFINITY;

  add(id: string, nowMs: number): void {
    if (this.#young.size >= GENERATION_SIZE || nowMs - this.#begunMs > GENERATION_MS) {
      this.#old = this.#young;
      this.#young = new Set();
      this.#begunMs = nowMs;
    }
    this.#young.add(id);
  }

  has(id: string): boolean {
    return this.#young.has(id) || this.#old.has(id);
  }
}

// Ids that were released or abandoned, remembered for a while so that an attempt which arrives late changes nothing (P8).
// Two generations: a new one is begun after a while or when the present one is full, and the one before the last is
// forgotten, so that memory stays bounded however hot a key is.

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

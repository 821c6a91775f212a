// What the locks protect: a register per key that adds up. Guarded, it refuses a fence below the largest it has seen;
// unguarded, it believes everybody.

import type { HistoryEvent } from "../history.ts";
import type { Timeline } from "./timeline.ts";

export interface Touch {
  readonly client: string;
  readonly key: string;
  readonly fence: bigint;
  readonly guarded: boolean;
  /** What to write; null only reads (and, guarded, claims). */
  readonly write: number | null;
}

export class Resource {
  readonly name = "resource";
  readonly #timeline: Timeline;
  readonly #record: (event: HistoryEvent) => void;
  readonly #values = new Map<string, number>();
  readonly #largest = new Map<string, bigint>();

  constructor(timeline: Timeline, record: (event: HistoryEvent) => void) {
    this.#timeline = timeline;
    this.#record = record;
  }

  /** What the register held, or null when the fence was stale. */
  touch({ client, key, fence, guarded, write }: Touch): number | null {
    const name = `${guarded}:${key}`;
    const before = this.#values.get(name) ?? 0;
    const accepted = !guarded || fence >= (this.#largest.get(key) ?? 0n);
    if (accepted && guarded) this.#largest.set(key, fence);
    if (accepted && write !== null) this.#values.set(name, write);
    const after = this.#values.get(name) ?? 0;
    const at = this.#timeline.now;
    this.#record({
      type: "touched",
      at,
      client,
      key,
      fence: String(fence),
      guarded,
      accepted,
      write: write !== null,
      before,
      after,
    });
    return accepted ? before : null;
  }
}

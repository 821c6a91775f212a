// Deletes the rows of keys that nobody uses any more (P16, P21), on the occasion of other calls. The function
// raises the floor of the fences in the same step, so that no fence goes back (P3).

import type { Io } from "../../core/store.ts";
import type { Context } from "./context.ts";

const EVERY_MS = 60_000;
/** How long a row stays after its last use. */
const AGE = "1 minute";
/** So many rows are deleted per step. */
const STEP = 10_000;

export class Cleaner {
  readonly #context: Context;
  #nextMs: number;

  constructor(context: Context) {
    this.#context = context;
    // Not all processes at once.
    this.#nextMs = context.system.monoMs() + EVERY_MS * context.system.random();
  }

  /** If it is time. Nobody waits for it, and what fails is tried again next time. */
  run(io: Pick<Io, "sleep">): void {
    const nowMs = this.#context.system.monoMs();
    if (nowMs < this.#nextMs) return;
    this.#nextMs = nowMs + EVERY_MS;
    void this.#clean(io).catch(() => {});
  }

  /** All that there is: a fixed number per occasion would not keep up with many new keys. */
  async #clean({ sleep }: Pick<Io, "sleep">): Promise<void> {
    const context = this.#context;
    let deleted = STEP;
    while (deleted === STEP && !context.isClosed) {
      const { signal } = new AbortController();
      deleted = Number(await context.call("clean", [], [AGE], { signal, sleep }));
    }
  }
}

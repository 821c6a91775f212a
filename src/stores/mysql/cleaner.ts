// Cleans away the rows of locks that have been over for long. On the occasion of other calls, because a store
// sets no timer; then all that there are, so that it keeps up with any rate of new keys (P16, P21).

import type { System } from "../../core/system.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import type { Pool } from "./client/pool.ts";
import { sql } from "./sql.ts";

const EVERY_MS = 60_000;

export class Cleaner {
  readonly #pool: Pool;
  readonly #system: System;
  #nextMs: number;
  #isCleaning = false;

  constructor(pool: Pool, system: System) {
    this.#pool = pool;
    this.#system = system;
    // Not all processes at once.
    this.#nextMs = system.monoMs() + EVERY_MS * system.random();
  }

  /** If it is time. Nobody waits for it, and what fails is tried again next time. */
  cleanIfDue(): void {
    if (this.#isCleaning || this.#system.monoMs() < this.#nextMs) return;
    this.#isCleaning = true;
    this.#clean()
      .catch(() => {})
      .finally(() => {
        this.#isCleaning = false;
        this.#nextMs = this.#system.monoMs() + EVERY_MS;
      });
  }

  async #clean(): Promise<void> {
    // Each step takes rows of one namespace.
    for (let cleaned = 1; cleaned > 0;) {
      const { rows } = await this.#pool.run(sql["clean"], [], { signal: NEVER_ABORTED });
      cleaned = Number(rows[0]?.["cleaned"]);
    }
  }
}

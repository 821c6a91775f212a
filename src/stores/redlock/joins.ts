// Grants of a majority that the other nodes have not heard of yet. They are told a moment later, so that a lease which lives survives
// the loss of a node that granted it; most leases are over by then, and cost nobody anything.

import type { System } from "../../core/system.ts";
import type { Standing } from "./attempt.ts";
import type { Node } from "./node.ts";

/** Short beside any lease, long beside a section that only touches something. */
const JOIN_MS = 2;

interface Join {
  readonly standing: Standing;
  readonly dueMs: number;
  readonly put: (node: Node) => Promise<unknown>;
}

export class Joins {
  readonly #system: System;
  /** In the order in which they are due. */
  #open: Join[] = [];
  #cancel: (() => void) | null = null;

  constructor(system: System) {
    this.#system = system;
  }

  add(standing: Standing, put: (node: Node) => Promise<unknown>): void {
    this.#open.push({ standing, put, dueMs: this.#system.monoMs() + JOIN_MS });
    this.#cancel ??= this.#system.after(JOIN_MS, () => this.#due(), "background");
  }

  close(): void {
    this.#cancel?.();
    this.#open = [];
  }

  #due(): void {
    const nowMs = this.#system.monoMs();
    const later = this.#open.findIndex(({ dueMs }) => dueMs > nowMs);
    const due = this.#open.splice(0, later < 0 ? this.#open.length : later);
    this.#cancel = later < 0 ? null : this.#system.after(JOIN_MS, () => this.#due(), "background");
    for (const { standing, put } of due) {
      const { spared } = standing;
      standing.spared = [];
      // Whether they accept is theirs to say: the majority stands.
      for (const node of spared) put(node).catch(() => {});
    }
  }
}

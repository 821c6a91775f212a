// What is told to another opened store, as words, and who in this one is to hear it.

import type { LossReason } from "../../core/store.ts";
import type { Wake } from "./ledger.ts";

type TellLoss = (id: string, reason: LossReason, detail?: string) => void;

/** A reason is cut so that the words fit into what a database carries. */
const LONGEST_REASON = 1_000;

export function sayWake({ id, revoked }: Wake): string {
  return revoked === undefined ? `look ${id}` : `revoked ${id} ${revoked.slice(0, LONGEST_REASON)}`;
}

/** The subscriptions of one opened store. */
export class Pushes {
  readonly #wakes = new Map<string, () => void>();
  #tellLoss: TellLoss | null = null;

  add(id: string, wake: () => void): () => void {
    this.#wakes.set(id, wake);
    return () => this.#wakes.delete(id);
  }

  onLoss(tell: TellLoss): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  /** What is none of ours is not heard: anybody may say anything. */
  hear(words: string): void {
    const [kind, id, ...rest] = words.split(" ");
    if (id === undefined) return;
    // Clients of 0.1 say "grant" and the words of a grant, which only an attempt gives.
    if (kind === "look" || kind === "grant") this.#wakes.get(id)?.();
    if (kind === "revoked") this.#tellLoss?.(id, "revoked", rest.join(" "));
  }

  clear(): void {
    this.#wakes.clear();
    this.#tellLoss = null;
  }
}

// Routes the notifications that one opened store receives from the database to its waiters and holders.

import type { LossReason } from "../../core/store.ts";

type LossListener = (id: string, reason: LossReason, detail?: string) => void;

/** The subscriptions of one opened store. */
export class Subscriptions {
  readonly #wakes = new Map<string, () => void>();
  #lossListener: LossListener | null = null;

  add(id: string, wake: () => void): () => void {
    this.#wakes.set(id, wake);
    return () => this.#wakes.delete(id);
  }

  onLoss(listener: LossListener): () => void {
    this.#lossListener = listener;
    return () => {
      this.#lossListener = null;
    };
  }

  /** Ignores a message with another form or an unknown id: every client of the database can send one. */
  deliver(message: string): void {
    const [kind, id, ...rest] = message.split(" ");
    if (id === undefined) return;
    // holdfast 0.1 sends "grant" with the fields of a grant. Here it only wakes: only an attempt grants.
    if (kind === "look" || kind === "grant") this.#wakes.get(id)?.();
    if (kind === "revoked") this.#lossListener?.(id, "revoked", rest.join(" "));
  }

  clear(): void {
    this.#wakes.clear();
    this.#lossListener = null;
  }
}

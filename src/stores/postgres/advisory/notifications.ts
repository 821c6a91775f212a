// Who in this opened store hears of a wait that is over or of a revocation. Revocations arrive by NOTIFY.

import type { LossReason } from "../../../core/store.ts";

type ReportLoss = (id: string, reason: LossReason, detail?: string) => void;

/** A notification has room for 8,000 bytes. */
const LONGEST_REASON = 1_000;

export function revocationText(id: string, reason: string): string {
  return `revoked ${id} ${reason.slice(0, LONGEST_REASON)}`;
}

export class Notifications {
  readonly #wakes = new Map<string, () => void>();
  #reportLoss: ReportLoss | null = null;

  subscribe(id: string, wake: () => void): () => void {
    this.#wakes.set(id, wake);
    return () => this.#wakes.delete(id);
  }

  onLoss(report: ReportLoss): () => void {
    this.#reportLoss = report;
    return () => {
      this.#reportLoss = null;
    };
  }

  wake(id: string): void {
    this.#wakes.get(id)?.();
  }

  /** Ignores everything else: anybody may send anything on a channel. */
  hear(text: string): void {
    const [kind, id, ...words] = text.split(" ");
    if (kind === "revoked" && id !== undefined) this.#reportLoss?.(id, "revoked", words.join(" "));
  }

  clear(): void {
    this.#wakes.clear();
    this.#reportLoss = null;
  }
}

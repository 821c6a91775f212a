// What is told to another opened store, as words, and who in this one is to hear it.

import type { Grant, LossReason } from "../../core/store.ts";
import type { Wake } from "./ledger.ts";
import { toGrant } from "./grant.ts";

type WakeUp = (grant?: Grant<null>) => void;
type TellLoss = (id: string, reason: LossReason, detail?: string) => void;

/** A reason is cut so that the words fit into what a database carries. */
const LONGEST_REASON = 1_000;
/** PostgreSQL carries less than 8,000 bytes. A waiter of hundreds of keys is only told to look. */
const LONGEST_WORDS = 7_000;

export function sayWake({ id, grant, revoked }: Wake): string {
  if (revoked !== undefined) return `revoked ${id} ${revoked.slice(0, LONGEST_REASON)}`;
  if (grant === undefined) return `look ${id}`;
  const words = ["grant", id, grant.anchor, grant.room, grant.validMs, ...grant.fences].join(" ");
  return words.length > LONGEST_WORDS ? `look ${id}` : words;
}

/** The subscriptions of one opened store. */
export class Pushes {
  readonly #wakes = new Map<string, WakeUp>();
  #tellLoss: TellLoss | null = null;

  add(id: string, wake: WakeUp): () => void {
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
    if (kind === "look") this.#wakes.get(id)?.();
    if (kind === "revoked") this.#tellLoss?.(id, "revoked", rest.join(" "));
    if (kind !== "grant" || rest.length < 4 || !rest.every((word) => /^\d+(\.\d+)?$/.test(word))) return;
    const [anchor, room, validMs, ...fences] = rest.map(Number) as [number, number, number, ...number[]];
    this.#wakes.get(id)?.(toGrant({ fences, room, validMs, anchor }));
  }

  clear(): void {
    this.#wakes.clear();
    this.#tellLoss = null;
  }
}

// A guard in memory, for a service that owns the resource. It forgets when its process ends: a service that restarts
// lets the first fence that it sees through, whatever came before. Where that matters keep the fence with the data (guardRow, guardKey).

import { InvalidArgumentError } from "../core/errors.ts";
import { checkKey, showKey } from "../core/key.ts";
import { type Fence, fenceOf, staleError } from "./fence.ts";

export class FenceGate {
  readonly #seen = new Map<string, bigint>();

  /** Lets the fence through and remembers it, or throws StaleFenceError. Reads have to pass too: the first touch is the claim. */
  pass(key: string, fence: Fence): bigint {
    checkKey(key);
    const number = fenceOf(fence, key);
    const seen = this.#seen.get(key) ?? 0n;
    if (number < seen) throw staleError(showKey(key), key, number, seen);
    this.#seen.set(key, number);
    return number;
  }

  /** The largest fence that was let through; null before the first. */
  seen(key: string): bigint | null {
    return this.#seen.get(key) ?? null;
  }

  /** Starts from a fence that was kept elsewhere, for example on disk. Never goes back. */
  remember(key: string, fence: bigint): void {
    if (typeof fence !== "bigint") throw new InvalidArgumentError("the fence to remember is a bigint");
    checkKey(key);
    if (fence > (this.#seen.get(key) ?? 0n)) this.#seen.set(key, fence);
  }

  /** For a resource that is no more. */
  forget(key: string): void {
    this.#seen.delete(key);
  }
}

// A guard in memory, for a service that owns the resource. A restarted service has forgotten all fences and
// accepts the first one. Where that matters, store the fence with the data (guardRow, guardKey).

import { InvalidArgumentError } from "../core/errors.ts";
import { checkKey, showKey } from "../core/key.ts";
import { type Fence, fenceOf, staleError } from "./fence.ts";

/**
 * Remembers the largest fence of each key and rejects smaller ones. It forgets them when the process ends.
 *
 * @example
 * const gate = new FenceGate();
 * gate.pass("order:42", lease);
 */
export class FenceGate {
  readonly #seen = new Map<string, bigint>();

  /**
   * Accepts the fence and remembers it. Call it before reads too: otherwise an earlier holder can still write
   * after this holder has read.
   *
   * @throws StaleFenceError if the gate has accepted a larger fence of this key.
   */
  pass(key: string, fence: Fence): bigint {
    checkKey(key);
    const number = fenceOf(fence, key);
    const seen = this.#seen.get(key) ?? 0n;
    if (number < seen) throw staleError(showKey(key), key, number, seen);
    this.#seen.set(key, number);
    return number;
  }

  /** The largest accepted fence of the key, or null if there was none. */
  seen(key: string): bigint | null {
    return this.#seen.get(key) ?? null;
  }

  /** Sets the fence of a key, for example from disk after a restart. A smaller fence has no effect. */
  remember(key: string, fence: bigint): void {
    if (typeof fence !== "bigint")
      throw new InvalidArgumentError(`fence must be a bigint, got ${typeof fence}`);
    checkKey(key);
    if (fence > (this.#seen.get(key) ?? 0n)) this.#seen.set(key, fence);
  }

  /** Forgets a key whose resource no longer exists. */
  forget(key: string): void {
    this.#seen.delete(key);
  }
}

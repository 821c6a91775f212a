// The object that a plain `acquire` returns: a proxy of the lease. The hold references the lease, so it
// is renewed and its signal aborts in any case. Only the caller references the proxy, so its garbage
// collection shows that the caller forgot to release.

import type { Lease } from "../api.ts";
import type { Duration } from "../duration.ts";
import type { HeldLease } from "./lease.ts";
import { printedAsJson } from "../util/inspect.ts";
import type { Mode } from "../store.ts";

export class LeaseHandle implements Lease {
  readonly #lease: HeldLease;

  constructor(lease: HeldLease) {
    this.#lease = lease;
    lease.handle = this;
  }

  /** The lease of a handle. Returns any other value unchanged. */
  static unwrap(value: unknown): unknown {
    return typeof value === "object" && value !== null && #lease in value ? value.#lease : value;
  }

  get key(): string {
    return this.#lease.key;
  }

  get keys(): readonly string[] {
    return this.#lease.keys;
  }

  get label(): string {
    return this.#lease.label;
  }

  get mode(): Mode {
    return this.#lease.mode;
  }

  get fence(): bigint {
    return this.#lease.fence;
  }

  fenceOf(key: string): bigint {
    return this.#lease.fenceOf(key);
  }

  get held(): boolean {
    return this.#lease.held;
  }

  get remaining(): number {
    return this.#lease.remaining;
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  assertHeld(): void {
    this.#lease.assertHeld();
  }

  verify(): Promise<boolean> {
    return this.#lease.verify();
  }

  extend(ttl?: Duration): Promise<void> {
    return this.#lease.extend(ttl);
  }

  release(): Promise<boolean> {
    return this.#lease.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#lease[Symbol.asyncDispose]();
  }

  toJSON(): Record<string, unknown> {
    return this.#lease.toJSON();
  }
}

printedAsJson(LeaseHandle);

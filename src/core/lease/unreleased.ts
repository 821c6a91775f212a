// Finds leases that their callers forgot to release. When the process has nothing left to do, they are
// released, so that others need not wait for their ttl. A lease whose handle was garbage-collected is
// reported, because the caller can no longer release it. A lease that is shorter than a sweep costs
// nothing here.

import type { HeldLease } from "./lease.ts";
import type { System } from "../system.ts";

const SWEEP_MS = 1_000;

export interface UnreleasedDeps {
  readonly system: System;
  leases(): readonly HeldLease[];
  release(leases: readonly HeldLease[]): void;
}

export class UnreleasedLeases {
  readonly #deps: UnreleasedDeps;
  readonly #collected: FinalizationRegistry<HeldLease>;
  #stop: (() => void) | null = null;
  /** The leases whose handles were collected since the last report. */
  #unreported: HeldLease[] = [];

  constructor(deps: UnreleasedDeps) {
    this.#deps = deps;
    this.#collected = new FinalizationRegistry((lease) => {
      this.#unreported.push(lease);
      // One report for all handles that were collected together: there may be thousands.
      if (this.#unreported.length === 1) void deps.system.yield().then(() => this.#report());
    });
  }

  /** A lease begins. */
  watch(): void {
    if (this.#stop === null) this.#start();
  }

  stop(): void {
    this.#stop?.();
    this.#stop = null;
  }

  #start(): void {
    const { system } = this.#deps;
    const off = system.beforeExit?.(() => this.#deps.release(this.#deps.leases()));
    let cancel = (): void => {};
    const sweep = (): void => {
      const leases = this.#deps.leases();
      if (leases.length === 0) return this.stop();
      for (const lease of leases) this.#forgetHandle(lease);
      cancel = system.after(SWEEP_MS, sweep, "background");
    };
    cancel = system.after(SWEEP_MS, sweep, "background");
    this.#stop = () => {
      off?.();
      cancel();
    };
  }

  /** Drops the reference to the handle, so that only the caller has one. */
  #forgetHandle(lease: HeldLease): void {
    if (lease.handle === null) return;
    this.#collected.register(lease.handle, lease);
    lease.handle = null;
  }

  #report(): void {
    const held = this.#unreported.filter((lease) => lease.held);
    this.#unreported = [];
    const [first] = held;
    if (first === undefined) return;
    const others = held.length === 1 ? "" : `, like ${held.length - 1} others,`;
    this.#deps.system.warn(
      `the lease of ${JSON.stringify(first.key)}${others} was garbage-collected and not released`,
      "this process holds the key until it exits. Call release(), or acquire with using()",
    );
  }
}

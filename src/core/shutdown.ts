// Closes a `Locks` (P1, P16): no other process gets a key while a callback that has not been notified is
// running.
//
//   open --close()--> draining --nothing is left, or drain is over--> closed
//
// 1. draining: new calls and waiting calls reject, and attempts in flight are undone. Calls nested in a
//    running callback continue. Plain leases and leaders are notified immediately. A plain lease is kept
//    for a moment, so that its owner can release it.
// 2. closed: every callback that still runs is notified, and its call rejects.
// 3. One turn of the event loop later, when the notified callbacks have run, the keys are released.

import { Actor } from "./lease/actor.ts";
import type { RunningElection } from "./election/election.ts";
import type { JoinedLease } from "./lease/reentrant-lease.ts";
import type { LockManager } from "./acquire/lock-manager.ts";
import type { HeldLease } from "./lease/lease.ts";
import { closedError } from "./acquire/acquire-errors.ts";
import type { System } from "./system.ts";

const DEFAULT_DRAIN_MS = 10_000;
/** The longest time for which a plain lease is kept for its owner. */
const PLAIN_LEASE_MS = 1_000;
/** How long to wait for a store that is being opened. */
const OPENING_MS = 2_000;

/** A running callback of `using`, `once` or `elect`. `interrupt` rejects its call. */
interface Callback {
  readonly lease: HeldLease | JoinedLease;
  readonly interrupt: (error: Error) => void;
}

export interface ShutdownDeps {
  readonly system: System;
  readonly elections: ReadonlySet<RunningElection>;
  /** The store, if it is open. */
  manager(): LockManager | null;
  /** The store that is being opened. Resolves with null if no call has opened it, or opening failed. */
  opening(): Promise<LockManager | null>;
  /** All keys were released. */
  closed(): void;
}

/** A `close` that was called inside callbacks. It does not wait for these callbacks. */
interface InsideClose {
  readonly around: ReadonlySet<Actor>;
  readonly resolve: () => void;
}

export class Shutdown {
  readonly #deps: ShutdownDeps;
  readonly #callbacks = new Map<Actor, Callback>();
  #phase: "open" | "draining" | "closed" = "open";
  #done: Promise<void> | null = null;
  #drainEndsMs = Number.POSITIVE_INFINITY;
  #plainMs = PLAIN_LEASE_MS;
  #cancelDrain: () => void = () => {};
  #cancelPlain: (() => void)[] = [];
  /** Functions that reject the calls which wait for the store to open or to answer. */
  readonly #interrupts = new Map<() => void, Actor | null>();
  #drained: () => void = () => {};
  #insideCloses: InsideClose[] = [];

  constructor(deps: ShutdownDeps) {
    this.#deps = deps;
  }

  /** Whether all calls may continue. */
  get isOpen(): boolean {
    return this.#phase === "open";
  }

  /** Whether a call of this actor may continue. */
  admits(actor: Actor | null): boolean {
    if (this.#phase === "open") return true;
    return this.#phase === "draining" && actor !== null && actor.isInside(this.#callbacks);
  }

  refuse(actor: Actor | null, keys: readonly string[] = []): void {
    if (!this.admits(actor)) throw closedError(keys);
  }

  /** Registers a callback that starts. `ended` follows with the same actor. */
  began({ actor }: HeldLease | JoinedLease, callback: Callback): void {
    this.#callbacks.set(actor, callback);
  }

  /** Removes a callback that has returned and whose key was released. */
  ended({ actor }: HeldLease | JoinedLease): void {
    this.#callbacks.delete(actor);
    if (this.#phase !== "draining") return;
    this.#notifyPlainLeases();
    this.#checkDrained();
  }

  /** Settles as `work`, or rejects when the locks are closed first. `work` itself continues. */
  orClosed<T>(actor: Actor | null, keys: readonly string[], work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const interrupt = (): void => reject(closedError(keys));
      const settled = (): boolean => this.#interrupts.delete(interrupt);
      this.#interrupts.set(interrupt, actor);
      work.then(resolve, reject);
      work.then(settled, settled);
    });
  }

  /** `drainMs` undefined: the value of an earlier call, or 10 seconds. */
  close(drainMs: number | undefined): Promise<void> {
    const { system } = this.#deps;
    if (this.#done === null) {
      this.#plainMs = Math.min(PLAIN_LEASE_MS, drainMs ?? PLAIN_LEASE_MS);
      this.#done = this.#run(drainMs ?? DEFAULT_DRAIN_MS);
    } else if (drainMs !== undefined && this.#phase === "draining") {
      this.#drainUntil(system.monoMs() + drainMs);
    }
    const around = this.#around(Actor.scope());
    return around.size === 0 ? this.#done : this.#closeInside(around, this.#done);
  }

  async #run(drainMs: number): Promise<void> {
    const { system, elections } = this.#deps;
    this.#phase = "draining";
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve;
    });
    this.#rejectCalls();
    for (const election of [...elections]) election.stopForClose();
    this.#deps.manager()?.onHoldEnd(() => this.#checkDrained());
    this.#notifyPlainLeases();
    this.#drainUntil(system.monoMs() + drainMs);
    this.#checkDrained();
    if (this.#phase === "draining") await drained;
    this.#interruptCallbacks();
    const manager = this.#deps.manager() ?? (await this.#openedInTime());
    await system.yield();
    await manager?.close();
    this.#deps.closed();
  }

  /** A later `close` can only shorten the drain. */
  #drainUntil(endMs: number): void {
    if (endMs >= this.#drainEndsMs) return;
    this.#drainEndsMs = endMs;
    this.#cancelDrain();
    const leftMs = endMs - this.#deps.system.monoMs();
    if (leftMs <= 0) this.#end();
    else this.#cancelDrain = this.#deps.system.after(leftMs, () => this.#end());
  }

  /** Rejects waiting calls and undoes attempts in flight, except those of actors that may continue. */
  #rejectCalls(): void {
    for (const [interrupt, actor] of [...this.#interrupts]) if (!this.admits(actor)) interrupt();
    this.#deps.manager()?.rejectCalls();
  }

  /** Notifies the leases of plain calls, which are not nested in a running callback. */
  #notifyPlainLeases(): void {
    const manager = this.#deps.manager();
    if (manager === null) return;
    const plain = manager
      .leases()
      .filter((lease) => !lease.isClosing && !lease.actor.isInside(this.#callbacks));
    if (plain.length === 0) return;
    for (const lease of plain) lease.notifyClosed();
    const release = (): void => manager.endLeases(plain);
    if (this.#plainMs > 0) this.#cancelPlain.push(this.#deps.system.after(this.#plainMs, release));
  }

  /** Ends the drain if nothing is left to wait for. */
  #checkDrained(): void {
    if (this.#phase !== "draining") return;
    const manager = this.#deps.manager();
    if (this.#callbacks.size === 0 && (manager === null || manager.holds.size === 0)) return this.#end();
    if (this.#insideCloses.length === 0) return;
    if (manager?.leases().some((lease) => !lease.actor.isInside(this.#callbacks))) return;
    this.#insideCloses = this.#insideCloses.filter(({ around, resolve }) => {
      const others = [...this.#callbacks.keys()].some((actor) => !around.has(actor));
      if (!others) resolve();
      return others;
    });
  }

  #end(): void {
    if (this.#phase !== "draining") return;
    this.#phase = "closed";
    this.#cancelDrain();
    for (const cancel of this.#cancelPlain) cancel();
    this.#cancelPlain = [];
    this.#drained();
  }

  #interruptCallbacks(): void {
    this.#rejectCalls();
    const manager = this.#deps.manager();
    for (const lease of manager?.leases() ?? []) manager?.loseToClose(lease);
    for (const { lease, interrupt } of [...this.#callbacks.values()]) {
      for (const section of lease.sections) section.notifyClosed();
      interrupt(lease.lost ?? (lease.signal.reason as Error));
    }
  }

  async #openedInTime(): Promise<LockManager | null> {
    const opening = this.#deps.opening();
    let cancel = (): void => {};
    const late = new Promise<null>((resolve) => {
      cancel = this.#deps.system.after(OPENING_MS, () => {
        resolve(null);
        // A store that opens later must not stay open.
        void opening.then((manager) => manager?.close());
      });
    });
    const manager = await Promise.race([opening, late]);
    cancel();
    return manager;
  }

  /** The running callbacks that this scope is inside of. */
  #around(scope: Actor | null): ReadonlySet<Actor> {
    if (scope === null || this.#phase !== "draining") return new Set();
    return new Set([...this.#callbacks.keys()].filter((actor) => scope.isInside(new Set([actor]))));
  }

  #closeInside(around: ReadonlySet<Actor>, done: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      void done.then(resolve);
      this.#insideCloses.push({ around, resolve });
      this.#checkDrained();
    });
  }
}

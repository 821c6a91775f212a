// How a `Locks` is closed (P1, P16): no other process gets a key while a callback that has not been notified
// is running.
//
//   open --close()--> draining --nothing is left, or drain is over--> closed
//
// 1. draining: calls are refused, waiting calls are rejected, attempts in flight are undone. Calls nested in
//    a running callback go on. Plain leases and leaders are notified at once; a plain lease is kept for a
// moment, so that its owner can release it.
// 2. closed: every callback that still runs is notified, and its call rejects.
// 3. One turn of the event loop later, so that those who were notified have heard it, the keys are released.

import { Actor } from "./lease/actor.ts";
import type { RunningElection } from "./election/election.ts";
import type { JoinedLease } from "./lease/reentrant-lease.ts";
import type { LockManager } from "./acquire/lock-manager.ts";
import type { HeldLease } from "./lease/lease.ts";
import { closedError } from "./acquire/acquire-errors.ts";
import type { System } from "./system.ts";

const DEFAULT_DRAIN_MS = 10_000;
/** How long a plain lease is kept for its owner, at most. */
const PLAIN_LEASE_MS = 1_000;
/** How long a store that is being opened is waited for. */
const OPENING_MS = 2_000;

/** A callback of `using`, `once` or `lead` that runs. `interrupt` rejects its call. */
interface Callback {
  readonly lease: HeldLease | JoinedLease;
  readonly interrupt: (error: Error) => void;
}

export interface ShutdownDeps {
  readonly system: System;
  readonly elections: ReadonlySet<RunningElection>;
  /** The store, if it is open. */
  manager(): LockManager | null;
  /** The store that is being opened; null if it never was, or could not be. */
  opening(): Promise<LockManager | null>;
  /** Everything was given back. */
  closed(): void;
}

/** A `close` that was called inside callbacks, which it does not wait for. */
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
  /** Calls that wait for the opening of the store, or for its answer to a question: rejects them. */
  readonly #interrupts = new Map<() => void, Actor | null>();
  #drained: () => void = () => {};
  #insideCloses: InsideClose[] = [];

  constructor(deps: ShutdownDeps) {
    this.#deps = deps;
  }

  /** Whether all calls may go on. */
  get isOpen(): boolean {
    return this.#phase === "open";
  }

  /** Whether a call of this actor may go on. */
  admits(actor: Actor | null): boolean {
    if (this.#phase === "open") return true;
    return this.#phase === "draining" && actor !== null && actor.isInside(this.#callbacks);
  }

  refuse(actor: Actor | null, keys: readonly string[] = []): void {
    if (!this.admits(actor)) throw closedError(keys);
  }

  /** A callback begins. Every begin is followed by `ended` with the same actor. */
  began({ actor }: HeldLease | JoinedLease, callback: Callback): void {
    this.#callbacks.set(actor, callback);
  }

  /** The callback has returned and its key was released. */
  ended({ actor }: HeldLease | JoinedLease): void {
    this.#callbacks.delete(actor);
    if (this.#phase !== "draining") return;
    this.#notifyPlainLeases();
    this.#look();
  }

  /** The same result, unless the locks are closed first. The work itself goes on. */
  orClosed<T>(actor: Actor | null, keys: readonly string[], work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const interrupt = (): void => reject(closedError(keys));
      const settled = (): boolean => this.#interrupts.delete(interrupt);
      this.#interrupts.set(interrupt, actor);
      work.then(resolve, reject);
      work.then(settled, settled);
    });
  }

  /** `drainMs` undefined: 10 seconds, or what an earlier call said. */
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
    this.#deps.manager()?.onHoldEnd(() => this.#look());
    this.#notifyPlainLeases();
    this.#drainUntil(system.monoMs() + drainMs);
    this.#look();
    if (this.#phase === "draining") await drained;
    this.#interruptCallbacks();
    const manager = this.#deps.manager() ?? (await this.#openedInTime());
    await system.yield();
    await manager?.close();
    this.#deps.closed();
  }

  /** Later calls can only shorten it. */
  #drainUntil(endMs: number): void {
    if (endMs >= this.#drainEndsMs) return;
    this.#drainEndsMs = endMs;
    this.#cancelDrain();
    const leftMs = endMs - this.#deps.system.monoMs();
    if (leftMs <= 0) this.#end();
    else this.#cancelDrain = this.#deps.system.after(leftMs, () => this.#end());
  }

  /** Rejects calls that wait and undoes attempts in flight, except those of actors that may go on. */
  #rejectCalls(): void {
    for (const [interrupt, actor] of [...this.#interrupts]) if (!this.admits(actor)) interrupt();
    this.#deps.manager()?.rejectCalls();
  }

  /** Leases of plain calls: those that no running callback surrounds. */
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

  /** Whether somebody is still waited for. */
  #look(): void {
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
        // Nobody waits for a store that opens later than this, but it must not stay open.
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
      this.#look();
    });
  }
}

// Event listeners. A listener that throws cannot affect a lock. Without listeners, no event object is made.

import {
  type DeadlockStep,
  type HolderSummary,
  InvalidArgumentError,
  LockAbortedError,
  LockError,
  type LockErrorCode,
  LockTimeoutError,
  plain,
  QuorumError,
  StoreUnavailableError,
} from "./errors.ts";
import type { AbsenceNotice, ClockJump, LossReason } from "./store.ts";
import type { System } from "./system.ts";
import { pointChannels } from "./tracing.ts";

/**
 * The fields that all events of a lease share. Events are plain data; in JSON their fences are decimal
 * strings.
 */
export interface LeaseEvent {
  /** The first of `keys`. */
  readonly key: string;
  readonly keys: readonly string[];
  /** The human-readable name of the holder. */
  readonly label: string;
  /** The fence of the first key. */
  readonly fence: bigint;
}

/** The fields that the events of a call without a lease share. */
export interface CallEvent {
  /** The first of `keys`. */
  readonly key: string;
  readonly keys: readonly string[];
  /** The `label` of the call. */
  readonly label: string;
  readonly waitedMs: number;
}

/**
 * The events of a `Locks` by name.
 *
 * @example
 * locks.on("lost", ({ key, reason }) => console.error(`lost ${key}: ${reason}`));
 */
export interface EventMap {
  /** A call has to wait for its key. */
  readonly waiting: { readonly key: string; readonly keys: readonly string[]; readonly label: string };
  /** A lease begins. `handedOff`: it comes from another task of this process, without asking the store. */
  readonly acquired: LeaseEvent & { readonly waitedMs: number; readonly handedOff: boolean };
  /** The store confirmed a renewal. */
  readonly renewed: LeaseEvent & { readonly remainingMs: number };
  /** A quarter of the window is left without a confirmed renewal. */
  readonly endangered: LeaseEvent & { readonly remainingMs: number };
  /** A lease ended before its holder released it. */
  readonly lost: LeaseEvent & { readonly reason: LossReason; readonly heldMs: number };
  /** The holder released a lease. `handedOff`: it goes to another task of this process. */
  readonly released: LeaseEvent & { readonly heldMs: number; readonly handedOff: boolean };
  /** This process revoked a key. `by` is the label of this process. */
  readonly revoked: {
    readonly key: string;
    readonly reason: string;
    readonly force: boolean;
    readonly by: string;
  };
  /** A call of this process was rejected because it was in a cycle. */
  readonly deadlock: CallEvent & { readonly cycle: readonly DeadlockStep[] };
  /** A call rejects with LockTimeoutError. */
  readonly timeout: CallEvent & { readonly holders: readonly HolderSummary[] };
  /** A call rejects with LockAbortedError. */
  readonly aborted: CallEvent;
  /** A call could not reach the store. Some calls, such as `check`, have no key. */
  readonly unavailable: Omit<CallEvent, "key" | "keys"> & {
    readonly key?: string;
    readonly keys?: readonly string[];
    readonly error: { readonly code: LockErrorCode; readonly message: string };
  };
  /** A node of the store does not vote yet: it restarted or lost its data, so it may have forgotten locks. */
  readonly quarantine: AbsenceNotice;
  /** The clock of a server jumped by more than the grace of a lease that the server renewed. */
  readonly clock: ClockJump;
}

/** The name of an event. */
export type EventName = keyof EventMap;

const NAMES: readonly EventName[] = [
  "waiting",
  "acquired",
  "renewed",
  "endangered",
  "lost",
  "released",
  "revoked",
  "deadlock",
  "timeout",
  "aborted",
  "unavailable",
  "quarantine",
  "clock",
];

export class Events {
  readonly #system: System;
  readonly #listeners = new Map<EventName, Set<(event: never) => void>>();

  constructor(system: System) {
    this.#system = system;
  }

  on<E extends EventName>(name: E, listener: (event: EventMap[E]) => void): () => void {
    if (!NAMES.includes(name)) {
      throw new InvalidArgumentError(`event must be one of ${NAMES.join(", ")}, got ${JSON.stringify(name)}`);
    }
    if (typeof listener !== "function")
      throw new InvalidArgumentError(`the listener of ${name} must be a function, got ${typeof listener}`);
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners);
    // The wrapper makes a function that is added twice two listeners, each with a removal of its own.
    const wrapper = (event: EventMap[E]): void => listener(event);
    listeners.add(wrapper);
    return () => {
      listeners.delete(wrapper);
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name);
    };
  }

  /** Whether this `Locks` or the diagnostics channel of the event has a listener. */
  hears(name: EventName): boolean {
    return this.#listeners.has(name) || pointChannels[name]?.hasSubscribers === true;
  }

  /** Calls `make` only if there is a listener. */
  emit<E extends EventName>(name: E, make: () => EventMap[E]): void {
    const listeners = this.#listeners.get(name);
    const point = pointChannels[name];
    const heard = point?.hasSubscribers === true;
    if (listeners === undefined && !heard) return;
    const event = make();
    Object.defineProperty(event, "toJSON", { value: () => plain(event) });
    // Node reports a subscriber that throws as an uncaught exception on the next tick.
    if (heard) point.publish(event);
    for (const listener of listeners === undefined ? [] : [...listeners]) {
      try {
        (listener as (event: EventMap[E]) => void)(event);
      } catch (error) {
        this.#system.warn(`a listener of "${name}" threw`, error);
      }
    }
  }

  /** Emits the event for the error of a failed call, if there is one. */
  failed(error: unknown, keys: readonly string[], label: string, waitedMs: number): void {
    const [key] = keys;
    if (error instanceof StoreUnavailableError || error instanceof QuorumError) {
      const { code, message } = error;
      const named = key === undefined ? {} : { key, keys };
      return this.emit("unavailable", () => ({ ...named, label, waitedMs, error: { code, message } }));
    }
    if (key === undefined || !LockError.is(error)) return;
    if (error instanceof LockTimeoutError) {
      return this.emit("timeout", () => ({ key, keys, label, waitedMs, holders: error.holders }));
    }
    if (error instanceof LockAbortedError) this.emit("aborted", () => ({ key, keys, label, waitedMs }));
  }
}

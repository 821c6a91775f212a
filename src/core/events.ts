// Listeners. A throwing listener cannot hurt a lock, and a lock that nobody listens to pays nothing.

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

/** Events are plain data without ids. In JSON their fences are decimal strings. */
export interface LeaseEvent {
  readonly key: string;
  readonly keys: readonly string[];
  readonly label: string;
  /** Of the first key. */
  readonly fence: bigint;
}

/** A call that ended without a lease. */
export interface CallEvent {
  readonly key: string;
  readonly keys: readonly string[];
  readonly label: string;
  readonly waitedMs: number;
}

export interface EventMap {
  readonly waiting: { readonly key: string; readonly keys: readonly string[]; readonly label: string };
  readonly acquired: LeaseEvent & { readonly waitedMs: number; readonly handedOff: boolean };
  readonly renewed: LeaseEvent & { readonly remainingMs: number };
  readonly endangered: LeaseEvent & { readonly remainingMs: number };
  readonly lost: LeaseEvent & { readonly reason: LossReason; readonly heldMs: number };
  readonly released: LeaseEvent & { readonly heldMs: number; readonly handedOff: boolean };
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
  /** A node of the store does not take part: it may have forgotten what it knew. */
  readonly quarantine: AbsenceNotice;
  /** The clock of a server jumped by more than the grace of a lease that was renewed there. */
  readonly clock: ClockJump;
}

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
      throw new InvalidArgumentError(
        `there is no event ${JSON.stringify(name)}: there are ${NAMES.join(", ")}`,
      );
    }
    if (typeof listener !== "function")
      throw new InvalidArgumentError(`the listener of ${name} is not a function`);
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners);
    // Wrapped, so that one function added twice is two listeners and each `off` takes away its own.
    const entry = (event: EventMap[E]): void => listener(event);
    listeners.add(entry);
    return () => {
      listeners.delete(entry);
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name);
    };
  }

  /** Whether anybody listens, on this `Locks` or on its channel. */
  hears(name: EventName): boolean {
    return this.#listeners.has(name) || pointChannels[name]?.hasSubscribers === true;
  }

  /** The event is made only when somebody listens. */
  emit<E extends EventName>(name: E, make: () => EventMap[E]): void {
    const listeners = this.#listeners.get(name);
    const point = pointChannels[name];
    const heard = point?.hasSubscribers === true;
    if (listeners === undefined && !heard) return;
    const event = make();
    Object.defineProperty(event, "toJSON", { value: () => plain(event) });
    // A subscriber that throws is told to the process by node itself, later.
    if (heard) point.publish(event);
    for (const listener of listeners === undefined ? [] : [...listeners]) {
      try {
        (listener as (event: EventMap[E]) => void)(event);
      } catch (error) {
        this.#system.warn(`a listener of "${name}" threw`, error);
      }
    }
  }

  /** A call that ended without what it was for, where there is an event for its error. */
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

// Measurements of a `Locks`, for holdfast/otel and holdfast/prometheus. Keys never become labels: a
// function of the caller maps each key to a group, and the number of groups is limited.

import type { Locks } from "../core/api.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import type { CallEvent, EventMap, EventName } from "../core/events.ts";

/** All further groups are "other". Every group costs a time series per metric. */
const MOST_GROUPS = 100;
const OTHER_GROUP = "other";

/** Options that `holdfast/otel` and `holdfast/prometheus` share. */
export interface ObserverOptions {
  /** Name of the store in the labels. @default "default" */
  readonly store?: string | undefined;
  /**
   * Maps a key to its group, such as "order" for "order:42". After 100 groups, all others are "other".
   * @default one group, "all"
   */
  readonly group?: ((key: string) => string) | undefined;
}

export interface Labels {
  readonly store: string;
  readonly group: string;
}

export type WaitOutcome = "acquired" | "timeout" | "aborted" | "deadlock" | "unavailable";

export interface Recorder {
  /** A call has ended. */
  waited(seconds: number, labels: Labels & { readonly outcome: WaitOutcome }): void;
  /** A lease has ended. */
  held(seconds: number, labels: Labels): void;
  /** The number of leases has changed. */
  addHeld(change: 1 | -1, labels: Labels): void;
  /** The number of waiting calls has changed. */
  addWaiting(change: 1 | -1, labels: Labels): void;
  lost(labels: Labels & { readonly reason: string }): void;
  /** A renewal is late, and the lease is endangered. */
  renewalLate(labels: Labels): void;
  storeError(labels: Labels & { readonly code: string }): void;
  deadlock(labels: Labels): void;
  clockJump(labels: Pick<Labels, "store">): void;
}

/** Reports measurements of `locks` from now on. Returns a function that stops the reports. */
export function observe(locks: Locks, options: ObserverOptions, recorder: Recorder): () => void {
  const { store = "default", group = () => "all" } = options;
  if (typeof group !== "function")
    throw new InvalidArgumentError(`group must be a function, got ${typeof group}`);
  const groups = new Set<string>();
  const waiting = new Map<string, number>();

  const labelsOf = (key: string): Labels => {
    const name = String(group(key));
    if (groups.size < MOST_GROUPS) groups.add(name);
    return { store, group: groups.has(name) ? name : OTHER_GROUP };
  };
  const addWaiting = (
    { key, label }: { readonly key: string; readonly label: string },
    change: 1 | -1,
  ): void => {
    const name = `${key}\0${label}`;
    const count = (waiting.get(name) ?? 0) + change;
    // The call that ended did not have to wait.
    if (count < 0) return;
    if (count === 0) waiting.delete(name);
    else waiting.set(name, count);
    recorder.addWaiting(change, labelsOf(key));
  };
  const ended = (event: CallEvent, outcome: WaitOutcome): void => {
    recorder.waited(event.waitedMs / 1_000, { ...labelsOf(event.key), outcome });
    addWaiting(event, -1);
  };
  const leaseEnded = ({ key, heldMs }: { readonly key: string; readonly heldMs: number }): void => {
    recorder.held(heldMs / 1_000, labelsOf(key));
    recorder.addHeld(-1, labelsOf(key));
  };

  const listeners: { readonly [E in EventName]?: (event: EventMap[E]) => void } = {
    waiting: (event) => addWaiting(event, 1),
    acquired: (event) => {
      ended(event, "acquired");
      recorder.addHeld(1, labelsOf(event.key));
    },
    released: leaseEnded,
    lost: (event) => {
      leaseEnded(event);
      recorder.lost({ ...labelsOf(event.key), reason: event.reason });
    },
    endangered: ({ key }) => recorder.renewalLate(labelsOf(key)),
    timeout: (event) => ended(event, "timeout"),
    aborted: (event) => ended(event, "aborted"),
    deadlock: (event) => {
      ended(event, "deadlock");
      recorder.deadlock(labelsOf(event.key));
    },
    unavailable: ({ key, label, waitedMs, error: { code } }) => {
      if (key !== undefined) ended({ key, keys: [key], label, waitedMs }, "unavailable");
      recorder.storeError({ ...labelsOf(key ?? ""), code });
    },
    clock: () => recorder.clockJump({ store }),
  };
  const stops = Object.entries(listeners).map(([name, listener]) =>
    locks.on(name as EventName, listener as (event: EventMap[EventName]) => void),
  );
  return () => stops.forEach((stop) => stop());
}

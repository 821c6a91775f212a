// What happened in a run, as the checkers read it: one list of plain events on one true clock, whether the run was
// simulated or real. A lease is named by its first key and fence, which are unique if P3 holds.

import type { Mode } from "../src/index.ts";

export interface Ask {
  readonly type: "ask";
  readonly at: number;
  readonly client: string;
  /** Unique per run. */
  readonly ask: string;
  readonly keys: readonly string[];
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  readonly ttlMs: number;
  readonly waitMs: number;
  /** The lease that its actor holds meanwhile. */
  readonly within?: string;
  /** A callback of `using` runs under the lease, until `letting-go`. */
  readonly callback?: true;
}

export interface Granted {
  readonly type: "granted";
  readonly at: number;
  readonly client: string;
  readonly ask: string;
  readonly lease: string;
  readonly fences: readonly string[];
  /** Certain validity from `at`, in true ms. */
  readonly remainingMs: number;
}

export interface Refused {
  readonly type: "refused";
  readonly at: number;
  readonly client: string;
  readonly ask: string;
  readonly code: string;
}

export interface LeaseStep {
  /**
   * `believes` is a look at the lease in between, when something may have changed what it believes.
   * `notified`: the signal of the lease has aborted.
   */
  readonly type: "renewed" | "believes" | "notified" | "letting-go" | "released" | "lost";
  readonly at: number;
  readonly client: string;
  readonly lease: string;
  /** Of `renewed` and `believes`. */
  readonly remainingMs?: number;
  /** Of `released`: what release() answered; null when it rejected. */
  readonly answer?: boolean | null;
  /** Of `lost`. */
  readonly reason?: string;
}

/** The resource's own log: what it was asked to do and whether it did it. */
export interface Touched {
  readonly type: "touched";
  readonly at: number;
  readonly client: string;
  readonly key: string;
  readonly fence: string;
  readonly guarded: boolean;
  readonly accepted: boolean;
  /** A write, not only a read. */
  readonly write: boolean;
  /** What the register held before and after; a write adds one to what its client has read. */
  readonly before: number;
  readonly after: number;
}

/** The client did not run, or not any more. */
export interface ClientState {
  readonly type: "paused" | "resumed" | "crashed" | "closing" | "closed";
  readonly at: number;
  readonly client: string;
  /** Of `closing`: how long callbacks may go on, where the client says so. */
  readonly drainMs?: number;
}

/** The store's own truth, where the run can see it. `until` is in true ms. */
export interface StoreStep {
  readonly type: "store-seated" | "store-beat" | "store-holds" | "store-free" | "store-unseated";
  readonly at: number;
  readonly key: string;
  /** An opaque name of the request. */
  readonly id: string;
  readonly fence?: string;
  /** How many fences above it belong to it. */
  readonly room?: number;
  readonly until?: number;
  /** Of `store-seated`: for how long it is kept the key when it is chosen. */
  readonly claimMs?: number;
  /** Of `store-seated`: it waits for other keys too. */
  readonly several?: boolean;
}

export interface Marked {
  readonly type: "fault" | "healed" | "over";
  readonly at: number;
  readonly what: string;
}

/** What was left in the store after everybody had closed and every lease had to be over. */
export interface LeftOver {
  readonly type: "left-over";
  readonly at: number;
  readonly what: string;
}

export type HistoryEvent =
  | Ask
  | Granted
  | Refused
  | LeaseStep
  | Touched
  | ClientState
  | StoreStep
  | Marked
  | LeftOver;

export interface History {
  readonly events: readonly HistoryEvent[];
  readonly context: RunContext;
}

/** What a checker has to know of the run. */
export interface RunContext {
  /** The store's declared weakness showed: locks were forgotten or its clock jumped, so P1 is not promised, P3 is. */
  readonly forgetful: boolean;
  /** In a forgetful run: how much older than the rest of the world a fence may be that is handed on inside a process. */
  readonly handOffBlurMs: number;
  /** Clocks of clients were set all the time: `held` sees it at once, the signal at the next look (P7). */
  readonly clocksSet?: boolean;
  /** Nothing was lost, cut, stopped or killed. */
  readonly calm: boolean;
  /** The longest that a question and its answer are on their way. */
  readonly roundTripMs: number;
  readonly fifo: boolean;
  /** The store cannot take several keys in one step. */
  readonly oneByOne?: boolean;
  readonly pollMs: number;
  readonly claimMs: number;
  /** How soon the key of a crashed holder is free, given its ttl. */
  freeAfterCrashMs(ttlMs: number): number;
  /** What this run's clock and scheduling may blur, in ms. */
  readonly slackMs: number;
  /** How long it may take until an id that is over is abandoned, once the store can be reached. */
  readonly abandonMs: number;
  /** When the whole machine stood still, the store's server with it: nobody is blamed for that time (P10, P13). */
  readonly machineStalls?: readonly Span[];
  /** One call's timeout, given the ttl. */
  callTimeoutMs(ttlMs: number): number;
}

export type Span = readonly [from: number, to: number];

export interface Violation {
  readonly promise: string;
  readonly at: number;
  readonly what: string;
}

export type Checker = (history: History) => Violation[];

export function ofType<T extends HistoryEvent["type"]>(
  history: History,
  ...types: readonly T[]
): (HistoryEvent & { readonly type: T })[] {
  const wanted = new Set<string>(types);
  return history.events.filter((event): event is HistoryEvent & { readonly type: T } =>
    wanted.has(event.type),
  );
}

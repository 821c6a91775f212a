// The messages between the suite and its child process, one JSON object per line. Types only.

import type { AcquireOptions, ElectOptions } from "../index.ts";
import type { ChildStore } from "./case.ts";

/** The argument of the child process. */
export interface ChildSetup {
  readonly store: ChildStore;
  readonly namespace: string;
  readonly label: string;
}

/** The state of a lease in a child process. */
export interface LeaseReport {
  /** Decimal strings by key. */
  readonly fences: Readonly<Record<string, string>>;
  readonly held: boolean;
  /** Why it was lost, if it was. */
  readonly lost: string | null;
  /** When `held` was last true, on the monotonic clock that all processes of this machine share. */
  readonly lastHeldMs: number;
  readonly nowMs: number;
}

/**
 * The arguments (`takes`) and the result (`gives`) of each operation. `as` is the name of a lease in the
 * child.
 */
export interface Operations {
  ready: { takes: Record<never, never>; gives: { readonly pid: number } };
  acquire: {
    takes: {
      readonly as: string;
      readonly key: string | readonly string[];
      readonly options?: AcquireOptions;
      /** The lease whose actor it belongs to. */
      readonly within?: string;
    };
    gives: LeaseReport;
  };
  /** Enters `once` and stays in it. */
  once: {
    takes: { readonly key: string; readonly atLeast: number; readonly options?: AcquireOptions };
    gives: { readonly ran: boolean };
  };
  /** Campaigns, replies when it leads, and keeps leading. */
  elect: {
    takes: { readonly name: string; readonly options?: ElectOptions };
    gives: { readonly fence: string };
  };
  look: { takes: { readonly as: string }; gives: LeaseReport };
  release: { takes: { readonly as: string }; gives: { readonly released: boolean } };
  /** Increments the number in `file` `times` times, each under the lock, and logs every section to `log`. */
  count: {
    takes: {
      readonly key: string;
      readonly file: string;
      readonly log: string;
      readonly times: number;
      readonly ttl: number;
    };
    gives: { readonly done: number };
  };
  /**
   * Enters `using`, replies when its callback runs, and stays in it: forever, or until `finishMs` after
   * SIGTERM. Logs to `log` when the callback finishes and when its signal aborts: the event, the key and
   * the time.
   */
  work: {
    takes: { readonly key: string; readonly log: string; readonly finishMs?: number };
    gives: Record<never, never>;
  };
  /** Closes the locks on SIGTERM with this `drain`. The process must then exit by itself. */
  closeOnTerm: { takes: { readonly drain: number }; gives: Record<never, never> };
  /** Closes the locks. The process must then exit by itself. */
  close: { takes: Record<never, never>; gives: Record<never, never> };
}

/** The name of an operation of a child process. */
export type Operation = keyof Operations;

export interface Call {
  readonly n: number;
  readonly operation: Operation;
  readonly takes: unknown;
}

export type Reply =
  | { readonly n: number; readonly gives: unknown }
  | { readonly n: number; readonly error: { readonly code: string; readonly message: string } };

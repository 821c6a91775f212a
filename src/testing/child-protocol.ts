// The words that the suite and its child process exchange, one JSON object per line. Types only.

import type { AcquireOptions, ElectOptions } from "../index.ts";
import type { ChildStore } from "./case.ts";

/** What the child is started with. */
export interface ChildSetup {
  readonly store: ChildStore;
  readonly namespace: string;
  readonly label: string;
}

export interface LeaseReport {
  /** By key. Decimal. */
  readonly fences: Readonly<Record<string, string>>;
  readonly held: boolean;
  /** Why it was lost, if it was. */
  readonly lost: string | null;
  /** When `held` was last seen true, on the clock that all processes of this machine share. */
  readonly lastHeldMs: number;
  readonly nowMs: number;
}

/** Every operation with what it takes and gives. A lease is kept in the child under the name `as`. */
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
  /** Campaigns, answers when it leads, and stays in office. */
  elect: {
    takes: { readonly name: string; readonly options?: ElectOptions };
    gives: { readonly fence: string };
  };
  look: { takes: { readonly as: string }; gives: LeaseReport };
  release: { takes: { readonly as: string }; gives: { readonly released: boolean } };
  /** Raises the number in `file` so many times, each under the lock, and writes every section to `log`. */
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
   * Enters `using`, answers when its callback runs, and stays in it: for ever, or until `finishMs` after
   * SIGTERM. Writes to `log` when the callback finishes and when its signal aborts: what happened, the key,
   * and the time.
   */
  work: {
    takes: { readonly key: string; readonly log: string; readonly finishMs?: number };
    gives: Record<never, never>;
  };
  /** On SIGTERM the locks are closed so; the process must then end by itself. */
  closeOnTerm: { takes: { readonly drain: number }; gives: Record<never, never> };
  /** Closes the locks; the process must then end by itself. */
  close: { takes: Record<never, never>; gives: Record<never, never> };
}

export type Operation = keyof Operations;

export interface Call {
  readonly n: number;
  readonly operation: Operation;
  readonly takes: unknown;
}

export type Reply =
  | { readonly n: number; readonly gives: unknown }
  | { readonly n: number; readonly error: { readonly code: string; readonly message: string } };

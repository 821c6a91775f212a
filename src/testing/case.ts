// The cases of the conformance suite, as data. The guarantees of a store alone decide which cases it must
// pass, so that no store can choose its own tests.

import type { Guarantees, Store } from "../core/store.ts";
import type { ApiContext } from "./api-context.ts";
import type { ContractContext } from "./contract-context.ts";
import type { ProcessContext } from "./process-context.ts";

/**
 * What a case calls. `contract`: the methods of an open store. `api`: `createLocks`. `process`: child
 * processes, which it kills and stops.
 */
export type Level = "contract" | "api" | "process";

/** A condition on the guarantees of a store, for a case to apply to it. */
export interface Need {
  met(guarantees: Guarantees): boolean;
  /** Why the case does not apply. */
  why(guarantees: Guarantees): string;
}

interface CaseHead {
  /** A unique and stable name of the form `topic/name`. */
  readonly id: string;
  readonly sentence: string;
  /** The promises that it checks. */
  readonly promises: readonly string[];
  /** The case applies if all of them are met. */
  readonly needs: readonly Need[];
}

/** A case that calls the methods of an open store. */
export interface ContractCase extends CaseHead {
  readonly level: "contract";
  run(ctx: ContractContext): Promise<void>;
}

/** A case that calls `createLocks`. */
export interface ApiCase extends CaseHead {
  readonly level: "api";
  run(ctx: ApiContext): Promise<void>;
}

/** A case that kills and stops child processes. */
export interface ProcessCase extends CaseHead {
  readonly level: "process";
  run(ctx: ProcessContext): Promise<void>;
}

/** A case of the conformance suite. */
export type Case = ContractCase | ApiCase | ProcessCase;

/**
 * How a child process opens the store: by a URL for `createLocks`, or by a module that exports
 * `createStore(...args)`.
 */
export type ChildStore =
  | { readonly url: string }
  | { readonly module: string; readonly args?: readonly string[] };

/** The store under test. */
export interface Subject {
  readonly name: string;
  /** The guarantees of the store. They select the cases before a store is made. */
  readonly guarantees: Guarantees;
  /** Makes a store. All stores that it makes must share their locks. */
  create(): Store | Promise<Store>;
  /** Required unless the scope is "process". Called after the server has started. */
  child?(): ChildStore;
  /**
   * How many records the server keeps for a namespace, if they can be counted, to check that memory is
   * bounded (P16).
   */
  footprint?(namespace: string): number | Promise<number>;
}

/** The server of the store, if it has one. */
export interface Server {
  start?(): Promise<void>;
  stop?(): Promise<void>;
  restart?(): Promise<void>;
}

/** The title of a case for a test runner: its sentence and its promises. */
export function titleOf(one: Case): string {
  return `${one.sentence} (${one.promises.join(", ")})`;
}

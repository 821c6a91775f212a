// What a case of the conformance suite is. Cases are data: which of them a store must pass follows from what the store
// declares and from nothing else, so that no store can choose its own tests.

import type { Guarantees, Store } from "../core/store.ts";
import type { ApiContext } from "./api-context.ts";
import type { ContractContext } from "./contract-context.ts";
import type { ProcessContext } from "./process-context.ts";

/** `contract`: the opened store itself. `api`: through `createLocks`. `process`: with processes that are killed and stopped. */
export type Level = "contract" | "api" | "process";

/** What a store must declare for a case to apply to it. */
export interface Need {
  met(guarantees: Guarantees): boolean;
  /** Why the case does not apply, in the words of the guarantees. */
  why(guarantees: Guarantees): string;
}

interface CaseHead {
  /** `theme/what`, unique and stable. */
  readonly id: string;
  readonly sentence: string;
  /** The promises that it checks. */
  readonly promises: readonly string[];
  /** All of them must be met; an empty list applies to every store. */
  readonly needs: readonly Need[];
}

export interface ContractCase extends CaseHead {
  readonly level: "contract";
  run(ctx: ContractContext): Promise<void>;
}

export interface ApiCase extends CaseHead {
  readonly level: "api";
  run(ctx: ApiContext): Promise<void>;
}

export interface ProcessCase extends CaseHead {
  readonly level: "process";
  run(ctx: ProcessContext): Promise<void>;
}

export type Case = ContractCase | ApiCase | ProcessCase;

/** How a child process gets at the store: by a URL that `createLocks` knows, or by a module that exports `createStore(...args)`. */
export type ChildStore =
  | { readonly url: string }
  | { readonly module: string; readonly args?: readonly string[] };

/** The store under test. */
export interface Subject {
  readonly name: string;
  /** What it declares. Known before it is created, because it selects the cases. */
  readonly guarantees: Guarantees;
  /** Called often; every store that it gives must meet all the others. */
  create(): Store | Promise<Store>;
  /** Needed unless the scope is "process". Called after the server was started. */
  child?(): ChildStore;
  /** How many things the server keeps for a namespace, where that can be counted; checks that memory is bounded (P16). */
  footprint?(namespace: string): number | Promise<number>;
}

/** For stores with a server. */
export interface Server {
  start?(): Promise<void>;
  stop?(): Promise<void>;
  restart?(): Promise<void>;
}

export function titleOf(one: Case): string {
  return `${one.sentence} (${one.promises.join(", ")})`;
}

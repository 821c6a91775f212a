// What stands behind the store of a world: one server or several, and how a fault strikes them.

import type { Guarantees, Store } from "../../src/core/store.ts";
import type { HistoryEvent } from "../history.ts";
import type { Fault, FaultKind, SimSettings } from "../settings.ts";
import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { Timeline } from "./timeline.ts";

/** What happens to pushes, beside what the network does to every message. */
export interface Pushes {
  lost: boolean;
  lateMs: number;
}

export interface Backend {
  readonly guarantees: Guarantees;
  /** How often a question and its answer may follow each other within one call. */
  readonly rounds: number;
  /** Opening asks the servers too, so it takes time and may fail. */
  readonly opens: boolean;
  readonly pushes: Pushes;
  /** Faults after which P1 is not promised any more; P3 is. */
  readonly weaknesses: readonly FaultKind[];
  /** How long a server may not take part after a restart. */
  readonly quarantineMs: number;
  /** The store of one process. */
  store(process: SimProcess): Store;
  /** The names of the servers that this fault is about. */
  struck(fault: Fault): readonly string[];
  freeze(fault: Fault): void;
  restart(fault: Fault, forget: boolean): void;
  jump(fault: Fault): void;
  /** Whatever is frozen goes on. */
  thaw(): void;
  /** What is still there, in words; empty when the place is clean. */
  leftovers(): string[];
}

export interface BackendDeps {
  readonly timeline: Timeline;
  readonly network: Network;
  readonly random: Random;
  readonly settings: SimSettings;
  readonly record: (event: HistoryEvent) => void;
}

/** Two clocks may differ by as much as core allows for; each by half of it. */
export const WORST_RATE = 0.0009;

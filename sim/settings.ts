// Everything that defines a run. A run is a pure function of its settings, so a failing one can be shrunk and kept.

import fc from "fast-check";

export type FaultKind =
  | "pause"
  | "stall"
  | "crash"
  /** The client closes its locks in the middle of its work. */
  | "shutdown"
  | "cut"
  | "cut-requests"
  | "cut-replies"
  | "freeze"
  | "restart"
  | "lose-pushes"
  | "late-pushes"
  | "client-wall"
  /** The store's declared weaknesses: after one of these P1 is not promised any more, P3 and P4 are. */
  | "forget"
  | "server-clock";

export interface Fault {
  readonly kind: FaultKind;
  /** In thousandths of the run's length. */
  readonly at: number;
  readonly ms: number;
  /** Which client, by number; taken modulo. */
  readonly client: number;
  /** Where there are several servers: which of them, a bit each. */
  readonly nodes?: number;
}

/** What stands behind the store: the reference store's own server, or one that the real store of that name talks to. */
export const STORES = ["memory", "redis", "redlock"] as const;
export type SimStoreName = (typeof STORES)[number];

export interface SimSettings {
  /** Absent: memory. */
  readonly store?: SimStoreName;
  /** How many servers, where there are several. */
  readonly nodes?: 3 | 5;
  readonly seed: number;
  readonly clients: number;
  readonly tasks: number;
  readonly keys: number;
  readonly lengthMs: number;
  readonly handoffMs: number;
  readonly ttlMs: number;
  /**
   * What tasks ask for: locks only, or all kinds mixed. In "nested" they hold one key while they ask for the
   * other. In "crowd" each asks once for the same key, and waits for as long as it takes; the first one holds
   * the key for half of the run.
   */
  readonly kinds: "locks" | "readers" | "semaphore" | "several" | "nested" | "crowd";
  /** All tasks of a client run in the callback of one `using`: they are siblings, and ask like strangers. */
  readonly siblings?: boolean;
  readonly maxDelayMs: number;
  readonly loss: number;
  readonly duplication: number;
  readonly faults: readonly Fault[];
}

export const FORGETFUL: readonly FaultKind[] = ["forget", "server-clock"];

const SAFE: readonly FaultKind[] = [
  "pause",
  "stall",
  "crash",
  "shutdown",
  "cut",
  "cut-requests",
  "cut-replies",
  "freeze",
  "restart",
  "lose-pushes",
  "late-pushes",
  "client-wall",
];

/** One run in five also shows the store's weaknesses. */
const kind: fc.Arbitrary<FaultKind> = fc.oneof(
  { weight: 24, arbitrary: fc.constantFrom(...SAFE) },
  { weight: 1, arbitrary: fc.constantFrom(...FORGETFUL) },
);

const fault: fc.Arbitrary<Fault> = fc.record({
  kind,
  // Not a double: those are drawn evenly over their bit patterns, and nearly all of them are nearly zero.
  at: fc.integer({ min: 0, max: 1_000 }),
  ms: fc.integer({ min: 1, max: 2_500 }),
  client: fc.nat(7),
});

const worldArbitrary: fc.Arbitrary<SimSettings> = fc.record({
  seed: fc.nat(2 ** 31),
  clients: fc.integer({ min: 1, max: 4 }),
  tasks: fc.integer({ min: 1, max: 3 }),
  keys: fc.integer({ min: 1, max: 2 }),
  lengthMs: fc.integer({ min: 500, max: 4_000 }),
  handoffMs: fc.constantFrom(0, 10, 100),
  ttlMs: fc.constantFrom(200, 200, 600, 600, 1_500, 20_000),
  kinds: fc.constantFrom(
    "locks" as const,
    "locks" as const,
    "readers" as const,
    "semaphore" as const,
    "several" as const,
    "nested" as const,
    "nested" as const,
  ),
  maxDelayMs: fc.constantFrom(2, 20, 150),
  loss: fc.constantFrom(0, 0, 0.05, 0.2),
  duplication: fc.constantFrom(0, 0.1),
  faults: fc.array(fault, { maxLength: 6 }),
});

/**
 * One world in four has siblings. Taken from the seed, so that the other choices of a world stay what they
 * were.
 */
export const settingsArbitrary: fc.Arbitrary<SimSettings> = worldArbitrary.map((settings) =>
  settings.seed % 4 === 0 ? { ...settings, siblings: true } : settings,
);

/** What strikes several nodes strikes one of them in most cases. Losing data is none of a redlock's weaknesses, as long as few nodes do. */
const nodeFault: fc.Arbitrary<Fault> = fc.record({
  kind: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom<FaultKind>(...SAFE) },
    { weight: 3, arbitrary: fc.constantFrom<FaultKind>("freeze", "restart", "forget", "cut", "cut-replies") },
    { weight: 1, arbitrary: fc.constant<FaultKind>("server-clock") },
  ),
  at: fc.integer({ min: 0, max: 1_000 }),
  ms: fc.integer({ min: 1, max: 2_500 }),
  client: fc.nat(7),
  nodes: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(1, 2, 4, 8, 16) },
    { weight: 1, arbitrary: fc.nat(31) },
  ),
});

const redlockArbitrary: fc.Arbitrary<SimSettings> = fc
  .record({
    world: settingsArbitrary,
    nodes: fc.constantFrom(3 as const, 3 as const, 5 as const),
    kinds: fc.constantFrom("locks" as const, "locks" as const, "several" as const, "nested" as const),
    faults: fc.array(nodeFault, { maxLength: 5 }),
  })
  .map(({ world, nodes, kinds, faults }) => ({ store: "redlock", ...world, nodes, kinds, faults }));

/** Worlds over one store. */
export function settingsFor(store: SimStoreName): fc.Arbitrary<SimSettings> {
  if (store === "memory") return settingsArbitrary;
  if (store === "redlock") return redlockArbitrary;
  return settingsArbitrary.map((settings) => ({ store, ...settings }));
}

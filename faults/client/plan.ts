// What clients ask for: mostly plain locks, some of every other kind, each kind on keys of its own. Leases are short, so
// that the faults outlast them.

import type { Kind, Mode } from "../../src/index.ts";
import type { Random } from "../../sim/world/random.ts";

export interface PlanOptions {
  readonly ttl: number;
  readonly wait: number;
  readonly mode?: Mode;
  readonly limit?: number;
  readonly permits?: number;
  readonly renew?: boolean;
  readonly maxHold?: number;
}

export interface Plan {
  readonly keys: readonly string[];
  readonly options: PlanOptions;
  /** By tryAcquire. */
  readonly tries: boolean;
  /** In a callback of `using`, which `close` lets finish. */
  readonly scoped: boolean;
  readonly holdMs: number;
  /** Reads and writes the registers of its first key. Exclusive leases only. */
  readonly touches: boolean;
}

export const LOCKS = ["x0", "x1", "x2", "x3", "x4"] as const;
const READERS = "r0";
const SEMAPHORE = "s0";
const SEVERAL = ["m0", "m1"] as const;
const PERMITS = 3;

const TTLS_MS = [300, 500, 800, 1_500] as const;
export const LONGEST_TTL_MS = 1_500;
/** Longer than the time in which every live holder in line lets go. */
const PROBE_WAIT_MS = 30_000;

/** Of the kinds that the store has; plain locks in the place of the others. */
export function plan(random: Random, kinds: readonly Kind[]): Plan {
  const common = {
    ttl: random.pick(TTLS_MS),
    wait: random.pick([0, 100, 500, 2_000, 5_000]),
    ...(random.chance(0.1) ? { renew: false } : {}),
    ...(random.chance(0.05) ? { maxHold: 400 } : {}),
  };
  const tries = random.chance(0.15);
  const scoped = !tries && random.chance(0.4);
  const holdMs = random.pick([0, 0, 0, 2, 5, 10, 30, 150, 500, 1_200]) * random.next();
  const exclusive = { tries, scoped, holdMs, touches: random.chance(0.8) };
  const kind = kindFrom(random.next());
  if (kind === "exclusive" || !kinds.includes(kind))
    return { keys: [random.pick(LOCKS)], options: common, ...exclusive };
  if (kind === "shared") {
    const shared = random.chance(0.7);
    const options = shared ? { ...common, mode: "shared" as const } : common;
    return { keys: [READERS], options, ...exclusive, touches: !shared && exclusive.touches };
  }
  if (kind === "semaphore") {
    const options = { ...common, limit: PERMITS, permits: random.pick([1, 1, 2, 3]) };
    return { keys: [SEMAPHORE], options, tries, scoped, holdMs, touches: false };
  }
  return { keys: random.chance(0.6) ? SEVERAL : [random.pick(SEVERAL)], options: common, ...exclusive };
}

function kindFrom(chance: number): Kind {
  if (chance < 0.7) return "exclusive";
  if (chance < 0.8) return "shared";
  return chance < 0.9 ? "semaphore" : "multi";
}

/** Every key once. */
export function probePlans(kinds: readonly Kind[]): Plan[] {
  const common = { ttl: LONGEST_TTL_MS, wait: PROBE_WAIT_MS };
  const one = { tries: false, scoped: false, holdMs: 0, touches: false };
  const locks = [...LOCKS, READERS, ...SEVERAL].map((key) => ({ keys: [key], options: common, ...one }));
  if (!kinds.includes("semaphore")) return locks;
  return [...locks, { keys: [SEMAPHORE], options: { ...common, limit: PERMITS }, ...one }];
}

// `testStore` selects the cases by the guarantees of the store, and registers them with a test runner.
// Each case that does not apply has a reason. No case is skipped because a server is missing.

import assert from "node:assert/strict";
import type { Guarantees } from "../core/store.ts";
import { nodeSystem } from "../system/node.ts";
import { ApiContext } from "./api-context.ts";
import { type Case, type Level, type Server, type Subject, titleOf } from "./case.ts";
import { allCases } from "./cases/index.ts";
import { ContractContext } from "./contract-context.ts";
import { withTimeout } from "./io.ts";
import { ProcessContext } from "./process-context.ts";
import { isViolation } from "./critical-section-log.ts";
import { StallMeter } from "./stall-meter.ts";

/**
 * The functions of a test runner that the suite needs. vitest has them; for node:test and mocha, pass
 * `before` and `after` as `beforeAll` and `afterAll`.
 */
export interface Runner {
  describe(name: string, fn: () => void): unknown;
  it(name: string, fn: () => Promise<void>): unknown;
  beforeAll(fn: () => Promise<void>): unknown;
  afterAll(fn: () => Promise<void>): unknown;
}

/** Options of `testStore`. */
export interface TestStoreOptions {
  readonly runner: Runner;
  readonly store: Subject;
  readonly server?: Server;
}

/** The cases that a store must pass, and the reason for each other case. */
export interface Plan {
  readonly run: readonly string[];
  readonly absent: Readonly<Record<string, string>>;
}

/**
 * The timeout of a case. Set the timeout of the runner a little higher, so that the message of the suite
 * shows.
 */
export const CASE_MS = 120_000;

/** How often a case is repeated if it fails while the machine stalls. */
const REPEATS = 2;
const LONGEST_STALL_MS = 1_000;

const LEVELS: readonly Level[] = ["contract", "api", "process"];
const LEVEL_TITLES: Readonly<Record<Level, string>> = {
  contract: "the contract",
  api: "the public API",
  process: "processes that die",
};

/**
 * Selects the cases for a store.
 *
 * @example
 * const { run, absent } = planFor(store.guarantees);
 */
export function planFor(guarantees: Guarantees): Plan {
  const run: string[] = [];
  const absent: Record<string, string> = {};
  for (const one of allCases) {
    const missing = one.needs.find((need) => !need.met(guarantees));
    if (missing === undefined) run.push(one.id);
    else absent[one.id] = missing.why(guarantees);
  }
  return { run, absent };
}

/**
 * Runs one case. A case in real time depends on the machine: by the rules, a waiter with a late heartbeat
 * loses its position, and a holder with a late renewal loses its lease. If a case fails while the machine
 * stalls for about as long as a heartbeat may be late, the stall may be the cause, so the case runs again
 * with a warning on the console. A real bug fails every time. Overlapping holders and a smaller fence are
 * failures without a repeat.
 */
export async function runCase(one: Case, store: Subject, server: Server = {}): Promise<void> {
  const stallMs = Math.min(store.guarantees.claimMs, LONGEST_STALL_MS) / 2;
  for (let left = REPEATS; ; left -= 1) {
    const meter = new StallMeter();
    try {
      await runOnce(one, store, server);
      return;
    } catch (error) {
      const stalledMs = meter.stalledMs();
      if (left === 0 || stalledMs < stallMs || isViolation(error)) throw error;
      const [message] = (error as Error).message.split("\n");
      console.warn(`repeated after a stall of ${Math.round(stalledMs)} ms: ${one.id} (${message})`);
    }
  }
}

async function runOnce(one: Case, store: Subject, server: Server): Promise<void> {
  const [ctx, run] = prepare(one, store, server);
  try {
    await withTimeout(one.id, CASE_MS, run());
  } finally {
    await ctx.end();
  }
}

function prepare(one: Case, store: Subject, server: Server): [{ end(): Promise<void> }, () => Promise<void>] {
  if (one.level === "contract") {
    const ctx = new ContractContext(store, server);
    return [ctx, () => one.run(ctx)];
  }
  if (one.level === "api") {
    const ctx = new ApiContext(store);
    return [ctx, () => one.run(ctx)];
  }
  const ctx = new ProcessContext(store);
  return [ctx, () => one.run(ctx)];
}

/** Checks that the guarantees of the subject, which select the cases, are those of the store. */
async function checkDeclaration(store: Subject): Promise<void> {
  const description = await store.create();
  assert.deepEqual(description.guarantees, store.guarantees);
  const opened = await description.open({ namespace: "suite", system: nodeSystem, allow: [] });
  try {
    assert.deepEqual(
      planFor(opened.guarantees),
      planFor(store.guarantees),
      "the opened store declares something else",
    );
  } finally {
    await opened.close();
  }
}

/**
 * Registers the conformance cases of a store with a test runner, and returns the plan.
 *
 * @example
 * import * as runner from "vitest";
 * testStore({ runner, store: { name: "mine", guarantees, create: () => myStore() } });
 */
export function testStore({ runner, store, server = {} }: TestStoreOptions): Plan {
  const plan = planFor(store.guarantees);
  const selected = new Set(plan.run);
  runner.describe(store.name, () => {
    runner.beforeAll(async () => server.start?.());
    runner.afterAll(async () => server.stop?.());
    runner.it("declares what selected its cases", () => checkDeclaration(store));
    for (const level of LEVELS) {
      const cases = allCases.filter((one) => one.level === level && selected.has(one.id));
      if (cases.length === 0) continue;
      runner.describe(LEVEL_TITLES[level], () => {
        for (const one of cases) runner.it(titleOf(one), () => runCase(one, store, server));
      });
    }
  });
  return plan;
}

// `testStore`: selects the cases by what the store declares, and registers them with whatever test runner is
// at hand. A case that does not apply is left out with its reason; nothing is skipped because something was
// not there.

import assert from "node:assert/strict";
import type { Guarantees } from "../core/store.ts";
import { nodeSystem } from "../system/node.ts";
import { ApiContext } from "./api-context.ts";
import { type Case, type Level, type Server, type Subject, titleOf } from "./case.ts";
import { allCases } from "./cases/index.ts";
import { ContractContext } from "./contract-context.ts";
import { within } from "./io.ts";
import { ProcessContext } from "./process-context.ts";
import { isViolation } from "./sections.ts";
import { StallMeter } from "./stall-meter.ts";

/**
 * The slice of a test runner that the suite needs: vitest's as it is; of node:test and mocha with `before`
 * and `after`.
 */
export interface Runner {
  describe(name: string, fn: () => void): unknown;
  it(name: string, fn: () => Promise<void>): unknown;
  beforeAll(fn: () => Promise<void>): unknown;
  afterAll(fn: () => Promise<void>): unknown;
}

export interface TestStoreOptions {
  readonly runner: Runner;
  readonly store: Subject;
  readonly server?: Server;
}

/** What a store must pass, and why it need not pass the rest. Every case is in one of the two. */
export interface Plan {
  readonly run: readonly string[];
  readonly absent: Readonly<Record<string, string>>;
}

/**
 * Give the runner a little more than this per test, so that the suite's own message is the one that is seen.
 */
export const CASE_MS = 120_000;

/** How often a case runs again that failed while the machine stalled. */
const REPEATS = 2;
const LONGEST_STALL_MS = 1_000;

const LEVELS: readonly Level[] = ["contract", "api", "process"];
const LEVEL_TITLES: Readonly<Record<Level, string>> = {
  contract: "the contract",
  api: "the public API",
  process: "processes that die",
};

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
 * Runs one case. Cases in real time rest on the machine: a waiter whose heartbeat is late loses its place by
 * the rules, and so does a lease whose renewal is late. If a case fails and the machine stalled meanwhile for
 * about as long as such a heartbeat may be late, nobody can tell a mistake from the stall, and the case runs
 * again. A mistake fails every time. Each repeat is a warning on the console. An overlap or a reversed fence
 * is never excused.
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
    await within(one.id, CASE_MS, run());
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

/** The declared guarantees must be the store's own: they selected the cases. */
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

// Proves the checker: every planted mistake is caught by the cases that are named for it.

import { AssertionError } from "node:assert";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Guarantees } from "../../src/core/store.ts";
import { LockError } from "../../src/index.ts";
import { memoryGuarantees } from "../../src/stores/memory/guarantees.ts";
import { useCompiledChild } from "../../src/testing/child-process.ts";
import { allCases, type Case, runCase, type Server, type Subject } from "../../src/testing/index.ts";
import { ignoreStalls } from "../../src/testing/stall-meter.ts";
import { builtDir } from "../support/built.ts";
import { GlassWorld } from "./fixture.ts";
import { type Mutant, ownershipMutants, timeMutants } from "./mutants.ts";
import { ruleMutants } from "./rule-mutants.ts";

useCompiledChild(join(builtDir(), "testing", "child.js"));

function subject(name: string, guarantees: Guarantees, world: GlassWorld, mutant?: Mutant): Subject {
  return {
    name,
    guarantees,
    create: () => ({
      name,
      guarantees,
      open(env) {
        const store = world.open(env);
        mutant?.plant(store, world);
        return Promise.resolve(store);
      },
    }),
    child: () => ({ url: "memory:" }),
  };
}

function caseOf(id: string): Case {
  const found = allCases.find((one) => one.id === id);
  if (found === undefined) throw new Error(`there is no case ${id}`);
  return found;
}

async function verdict(id: string, store: Subject, server?: Server): Promise<unknown> {
  return runCase(caseOf(id), store, server).then(
    () => "passed",
    (error: unknown) => error,
  );
}

/** Without repeats: a planted mistake must be seen on a busy machine too. */
function firstVerdict(id: string, store: Subject, server?: Server): Promise<unknown> {
  ignoreStalls(true);
  return verdict(id, store, server).finally(() => ignoreStalls(false));
}

/** A failed assertion, or an error of the locks themselves; anything else would be a mistake in the mutant. */
function caught(outcome: unknown): boolean {
  return outcome instanceof AssertionError || LockError.is(outcome);
}

const mutants = [...ownershipMutants, ...timeMutants, ...ruleMutants];

describe("the suite catches", () => {
  it("nothing where nothing was planted", async () => {
    const store = subject("sound", memoryGuarantees, new GlassWorld());
    for (const id of new Set(mutants.flatMap((mutant) => mutant.caughtBy)))
      expect([id, await verdict(id, store)]).toEqual([id, "passed"]);
  });
});

// Beside each other: some mistakes show as a wait that does not end.
describe.concurrent("the suite catches", () => {
  for (const mutant of mutants) {
    for (const id of mutant.caughtBy) {
      it(`"${mutant.mistake}" by ${id}`, async () => {
        const store = subject(mutant.mistake, memoryGuarantees, new GlassWorld(), mutant);
        expect(await firstVerdict(id, store)).toSatisfy(caught);
      });
    }
  }
});

describe("stores that claim too much", () => {
  /** Declares `said` to the suite and `done` to core. */
  const declaring = (said: Guarantees, done: Guarantees): Subject => {
    const { create: _create, ...rest } = subject("modest", said, new GlassWorld());
    const world = new GlassWorld();
    return {
      ...rest,
      create: () => ({
        name: "modest",
        guarantees: done,
        open: (env) => Promise.resolve(Object.assign(world.open(env), { guarantees: done })),
      }),
    };
  };

  // A memory store that says it reaches further than its process: every process has locks of its own.
  const boastful = (scope: Guarantees["scope"], world: GlassWorld): Subject =>
    subject("boastful", { ...memoryGuarantees, scope }, world);

  for (const id of ["process/meet", "process/counter", "process/killed-once"]) {
    it(`are caught by ${id}`, async () => {
      expect(await firstVerdict(id, boastful("machine", new GlassWorld()))).toSatisfy(caught);
    });
  }

  it("are caught by fences/server-restart when they forget", async () => {
    const world = new GlassWorld();
    const restart = (forgets: boolean): Server => ({ restart: async () => void (forgets && world.forget()) });
    const store = boastful("network", world);
    expect(await verdict("fences/server-restart", store, restart(false))).toBe("passed");
    expect(await verdict("fences/server-restart", store, restart(true))).toSatisfy(caught);
    expect(await verdict("fences/server-restart", store)).toSatisfy(caught);
  });

  it("are caught by names/namespaces when they have only one", async () => {
    const world = new GlassWorld();
    const open = world.open.bind(world);
    world.open = (env) => open({ ...env, namespace: "the only one" });
    expect(await verdict("names/namespaces", subject("one namespace", memoryGuarantees, world))).toSatisfy(
      caught,
    );
  });

  it("are caught by api/unsupported when they let through what they do not declare", async () => {
    const modest = { ...memoryGuarantees, kinds: ["exclusive"] } as const;
    const all = { ...modest, kinds: ["exclusive", "shared", "semaphore", "keep"] } as const;
    expect(await verdict("api/unsupported", declaring(modest, modest))).toBe("passed");
    expect(await verdict("api/unsupported", declaring(modest, all))).toSatisfy(caught);
  });

  it("are caught when they do not say how a child gets at them", async () => {
    const { child: _child, ...store } = boastful("machine", new GlassWorld());
    expect(await verdict("process/meet", store)).toSatisfy(caught);
  });
});

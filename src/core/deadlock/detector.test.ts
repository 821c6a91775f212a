// Circles of actors in virtual time: found, told, and broken by one victim; and everything that only
// looks like one.

import { expect, test } from "vitest";
import { Detector } from "./detector.ts";
import { HoldfastLocks } from "../locks.ts";
import { readLocksOptions } from "../options.ts";
import { readNote, type Wait, writeNote } from "./wait-note.ts";
import { type AcquireOptions, DeadlockError, type EventMap, type LocksOptions } from "../../index.ts";
import { memory } from "../../stores/memory/index.ts";
import { refusal, within, world as anyWorld, type World } from "../fixture.ts";

const WAIT = 60_000;

/** Holds `first`, then wants `second`; says what became of it and when. */
function greedy(
  { system }: World,
  locks: HoldfastLocks,
  label: string,
  first: string | readonly string[],
  second: string | readonly string[],
  options: {
    readonly first?: AcquireOptions;
    readonly second?: AcquireOptions;
    readonly at?: HoldfastLocks;
  } = {},
): Promise<{ readonly label: string; readonly error: unknown; readonly atMs: number }> {
  const outcome = (error: unknown): { label: string; error: unknown; atMs: number } => ({
    label,
    error,
    atMs: system.monoMs(),
  });
  return locks
    .using(first, { label, wait: WAIT, ...options.first }, async () => {
      await new Promise<void>((resolve) => void system.after(20, resolve));
      await (options.at ?? locks).using(second, { label, wait: WAIT, ...options.second }, () => {});
    })
    .then(() => outcome(null))
    .catch(outcome);
}

async function all<T>(world: World, ms: number, work: readonly Promise<T>[]): Promise<T[]> {
  const settled: T[] = [];
  for (const one of work) void one.then((value) => settled.push(value));
  for (let passed = 0; settled.length < work.length && passed < ms; passed += 10)
    await world.system.advance(10);
  return settled;
}

function separate(world: World, options: LocksOptions = {}): [HoldfastLocks, HoldfastLocks, HoldfastLocks] {
  return [world.others(options), world.others(options), world.others(options)];
}

test("two tasks of one process that want each other's keys: found at once after 500 ms without asking the store (P15)", async () => {
  const world = anyWorld();
  const mine = world.locks();
  const heard: EventMap["deadlock"][] = [];
  let inspections = -1;
  mine.on("deadlock", (event) => {
    heard.push(event);
    inspections = world.door.count("inspect");
  });
  const sinceMs = world.system.monoMs();
  const outcomes = await all(world, 5_000, [
    greedy(world, mine, "one", "a", "b"),
    greedy(world, mine, "two", "b", "a"),
  ]);
  expect(outcomes.map(({ error }) => error === null)).toEqual([false, true]);
  const [victim] = outcomes as [{ label: string; error: DeadlockError; atMs: number }];
  expect(victim.error).toBeInstanceOf(DeadlockError);
  expect(victim.label).toBe("two");
  expect(victim.error.retryable).toBe(true);
  expect(victim.error.cycle).toEqual([
    { label: "two", holds: "b", waitsFor: "a" },
    { label: "one", holds: "a", waitsFor: "b" },
  ]);
  expect(victim.error.message).toMatch(/one holds "a".*waits for "b"/);
  expect(victim.atMs - sinceMs).toBeLessThan(560);
  expect(heard).toMatchObject([{ key: "a", label: "two", cycle: [{ holds: "b" }, { holds: "a" }] }]);
  expect(inspections).toBe(0);
});

test("three processes in a ring: one victim, the youngest; the others go on, and no note is left (P15)", async () => {
  const world = anyWorld();
  const [one, two, three] = separate(world);
  const sinceMs = world.system.monoMs();
  const work = [
    greedy(world, one, "one", "a", "b"),
    greedy(world, two, "two", "b", "c"),
    greedy(world, three, "three", "c", "a"),
  ];
  const outcomes = await all(world, 5_000, work);
  expect(outcomes).toHaveLength(3);
  const refused = outcomes.filter(({ error }) => error !== null);
  expect(refused.map(({ label }) => label)).toEqual(["three"]);
  const victim = refused[0] as { error: DeadlockError; atMs: number };
  expect(victim.error.cycle.map(({ holds }) => holds)).toEqual(["c", "a", "b"]);
  expect(victim.atMs - sinceMs).toBeLessThan(1_000);
  for (const key of ["a", "b", "c"]) expect(await one.inspect(key)).toBeNull();
});

const kinds: [string, AcquireOptions, AcquireOptions][] = [
  ["readers that both want to write the other's key", { mode: "shared" }, {}],
  ["readers behind writers", {}, { mode: "shared" }],
  ["semaphores that are all taken", { limit: 2, permits: 2 }, { limit: 2, permits: 1 }],
];
test.each(kinds)("a circle through %s is found (P15)", async (_name, first, second) => {
  const world = anyWorld();
  const [one, two] = separate(world);
  const outcomes = await all(world, 5_000, [
    greedy(world, one, "one", "a", "b", { first, second }),
    greedy(world, two, "two", "b", "a", { first, second }),
  ]);
  expect(outcomes.map(({ label, error }) => [label, error instanceof DeadlockError])).toEqual([
    ["two", true],
    ["one", false],
  ]);
});

test("a reader behind a writer that waits for a reader is part of the circle", async () => {
  const world = anyWorld();
  const [one, two, three] = separate(world);
  const reads = { mode: "shared" } as const;
  const first = greedy(world, one, "one", "k", "a", { first: reads });
  await world.system.advance(5);
  const writer = three.using("k", { wait: WAIT }, () => "wrote");
  const second = greedy(world, two, "two", "a", "k", { second: reads });
  const outcomes = await all(world, 5_000, [first, second]);
  expect(outcomes.filter(({ error }) => error instanceof DeadlockError)).toHaveLength(1);
  await world.system.advance(1_000);
  expect(await writer).toBe("wrote");
});

test("a semaphore is no circle while somebody outside of it can give permits back (P15)", async () => {
  const world = anyWorld();
  const [one, two, three] = separate(world);
  const limit = { limit: 3 };
  const free = await three.acquire("s", limit);
  const work = [
    greedy(world, one, "one", "s", "a", { first: limit }),
    greedy(world, two, "two", "a", "s", { second: { limit: 3, permits: 2 } }),
  ];
  await world.system.advance(5_000);
  // One permit is missing: it is the third's, who waits for nobody.
  await free.release();
  const outcomes = await all(world, 5_000, work);
  expect(outcomes.filter(({ error }) => error instanceof DeadlockError)).toHaveLength(0);
});

test("several keys: a circle through the second of them is found (P15)", async () => {
  const world = anyWorld();
  const [one, two] = separate(world);
  const outcomes = await all(world, 5_000, [
    greedy(world, one, "one", "m", ["a", "z"]),
    greedy(world, two, "two", ["z", "y"], ["l", "m"]),
  ]);
  expect(outcomes.map(({ label, error }) => [label, error instanceof DeadlockError])).toEqual([
    ["two", true],
    ["one", false],
  ]);
});

test("a circle over two stores is found, in one process and across (P15)", async () => {
  const world = anyWorld();
  const there = memory();
  const elsewhere = (): HoldfastLocks =>
    new HoldfastLocks(there, world.system, readLocksOptions({ label: "other" }, "other:1"));
  for (const [one, two] of [
    [world.others(), world.others()],
    [world.locks(), world.locks()],
  ] as const) {
    const [far, away] = [elsewhere(), elsewhere()];
    const outcomes = await all(world, 5_000, [
      greedy(world, one, "one", "a", "b", { at: far }),
      greedy(world, away, "two", "b", "a", { at: two }),
    ]);
    expect(outcomes.filter(({ error }) => error instanceof DeadlockError)).toHaveLength(1);
    expect(outcomes).toHaveLength(2);
  }
});

test("a long chain is no circle, nor is a key that a sibling will let go of (P15)", async () => {
  const world = anyWorld();
  const { system } = world;
  const [one, two, three] = separate(world);
  const pause = (ms: number): Promise<void> => new Promise((resolve) => void system.after(ms, resolve));
  const last = three.using("c", () => pause(4_000));
  const work = [greedy(world, one, "one", "a", "b"), greedy(world, two, "two", "b", "c")];
  // Holds a key in one branch for a while and waits for the other actor in another: it only looks like a
  // circle.
  const scope = one.using("outer", async () => {
    await Promise.all([one.using("x", () => pause(4_000)), pause(30).then(() => one.using("y", () => {}))]);
  });
  const other = greedy(world, two, "three", "y", "x");
  const outcomes = await all(world, 10_000, [...work, other]);
  await Promise.all([scope, last]);
  expect(outcomes.map(({ error }) => error)).toEqual([null, null, null]);
});

test("deadlock: false never looks; the wait ends as any other", async () => {
  const world = anyWorld();
  const [one, two] = separate(world, { deadlock: false });
  const wait = { wait: 3_000 };
  const outcomes = await all(world, 5_000, [
    greedy(world, one, "one", "a", "b", { second: wait }),
    greedy(world, two, "two", "b", "a", { second: wait }),
  ]);
  expect(outcomes[0]?.error).toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
});

test("a note is shown while its holder waits, as the key, and is gone at once when it stops", async () => {
  const world = anyWorld();
  const [one, two] = separate(world);
  const b = await two.acquire("b");
  const work = greedy(world, one, "one", "a", ["b", "c"], { second: { mode: "shared" } });
  await world.system.advance(400);
  expect((await two.inspect("a"))?.holders[0]?.waitingFor).toBeUndefined();
  await world.system.advance(200);
  expect((await two.inspect("a"))?.holders[0]?.waitingFor).toBe("b");
  const listed: (string | undefined)[] = [];
  for await (const info of two.list({ prefix: "a" })) listed.push(info.holders[0]?.waitingFor);
  expect(listed).toEqual(["b"]);
  await b.release();
  expect((await all(world, 1_000, [work]))[0]?.error).toBeNull();
});

test("a wait that timed out clears its note while its actor goes on holding", async () => {
  const world = anyWorld();
  const [one, two] = separate(world);
  await two.acquire("b");
  const a = await one.acquire("a");
  const waiting = refusal(one.acquire("b", { within: a, wait: 1_000 }));
  await world.system.advance(700);
  expect((await two.inspect("a"))?.holders[0]?.waitingFor).toBe("b");
  expect(await within(world.system, 1_000, waiting)).toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
  expect((await two.inspect("a"))?.holders[0]?.waitingFor).toBeUndefined();
  expect(a.held).toBe(true);
});

test("a note that could not be cleared is repeated by nobody, and alarms nobody (P15)", async () => {
  const world = anyWorld();
  const [one, two, three] = [world.others(), world.locks(), world.others()];
  const b = await two.acquire("b");
  await world.system.advance(20);
  const a = await one.acquire("a");
  // A key that nobody waits for is in no circle.
  const bystander = three.acquire("a", { wait: WAIT });
  const waiting = refusal(two.acquire("a", { within: b, wait: 1_000 }));
  await world.system.advance(700);
  world.door.faults.set("note", "hang");
  expect(await within(world.system, 1_000, waiting)).toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
  world.door.faults.delete("note");
  expect((await one.inspect("b"))?.holders[0]?.waitingFor).toBe("a");
  // `a` is the youngest record of what looks like a circle.
  const next = one.acquire("b", { within: a, wait: WAIT });
  await world.system.advance(5_000);
  expect((await one.inspect("a"))?.holders[0]?.waitingFor).toBeDefined();
  await b.release();
  expect((await within(world.system, 1_000, next)).held).toBe(true);
  await a.release();
  expect((await within(world.system, 1_000, bystander)).held).toBe(true);
});

test("notes say all there is to a wait, and plain ones are the key itself", () => {
  const plain: Wait = { keys: ["phone:139"], mode: "exclusive", permits: 1, limit: 1 };
  expect(writeNote({ waits: [plain], generation: 0 })).toBe("phone:139");
  const waits: Wait[] = [
    { keys: ["[", "ü\n"], mode: "shared", permits: 1, limit: 1 },
    { keys: ["s"], mode: "exclusive", permits: 2, limit: 7, seen: [2n ** 60n, 5n] },
    plain,
  ];
  for (const one of [...waits.map((wait) => [wait]), waits, [plain]]) {
    const note = { waits: one, generation: one.length };
    expect(readNote(writeNote(note) as string)).toEqual(note);
  }
  expect(readNote("[not ours").waits).toEqual([]);
  const long = Array.from({ length: 40 }, (_none, i) => `${i}`.padEnd(400, "é"));
  const note = writeNote({ waits: [{ ...plain, keys: long }], generation: 0 }) as string;
  expect(Buffer.byteLength(note)).toBeLessThanOrEqual(4_096);
  expect(readNote(note).waits[0]?.keys.length).toBeGreaterThan(3);
});

/**
 * n tasks that each hold a key and wait for another: the steps of the detector, and the notes that it
 * wrote.
 */
async function costOf(n: number, wants: (i: number) => string): Promise<{ steps: number; notes: number }> {
  const world = anyWorld();
  const mine = world.locks({ ttl: "1h" });
  const hot = await world.others({ ttl: "1h" }).acquire("hot");
  const waiters = Promise.allSettled(
    Array.from({ length: n }, (_none, i) =>
      mine.using(`own${i}`, async () => {
        await world.system.yield();
        await mine.using(wants(i), { wait: WAIT }, () => {});
      }),
    ),
  );
  await world.system.advance(1_000);
  const cost = { steps: Detector.of(world.system).steps, notes: world.door.count("note") };
  await hot.release();
  await within(world.system, WAIT, waiters);
  return cost;
}

const crowds: [string, (n: number) => (i: number) => string][] = [
  ["for one key", () => () => "hot"],
  ["in a ring", (n) => (i) => `own${(i + 1) % n}`],
  ["in pairs", () => (i) => `own${i % 2 === 0 ? i + 1 : i - 1}`],
];
test.each(crowds)(
  "the cost of a look grows with the tasks that wait %s, not with their square",
  async (_name, wants) => {
    const [small, large] = [await costOf(20, wants(20)), await costOf(200, wants(200))];
    expect(small.steps).toBeGreaterThan(0);
    expect(large.steps / small.steps).toBeLessThan(11);
    expect(large.notes).toBeLessThanOrEqual(2 * 200);
  },
);

test("one lease that thousands of nested calls wait under is noted a bounded number of times", async () => {
  const cost = async (n: number): Promise<number> => {
    const world = anyWorld();
    const mine = world.locks({ ttl: "1h" });
    const hot = await world.others({ ttl: "1h" }).acquire("hot");
    const scope = mine.using("scope", () =>
      Promise.all(
        Array.from({ length: n }, () => mine.using("hot", { wait: WAIT }, () => world.system.yield())),
      ),
    );
    await world.system.advance(1_000);
    await hot.release();
    await within(world.system, WAIT, scope);
    return world.door.count("note");
  };
  expect(await cost(300)).toBeLessThanOrEqual(4);
});

test("plain acquires of siblings are not linked, and alarm nobody (P15)", async () => {
  const world = anyWorld();
  const { system } = world;
  const mine = world.locks();
  const alarms: unknown[] = [];
  mine.on("deadlock", (event) => alarms.push(event));
  const pause = (ms: number): Promise<void> => new Promise((resolve) => void system.after(ms, resolve));
  const sibling = async (first: string, second: string): Promise<unknown> => {
    const lease = await mine.acquire(first);
    await pause(20);
    const error = await refusal(mine.acquire(second, { wait: 3_000 }));
    await lease.release();
    return (error as DeadlockError).code;
  };
  const scope = mine.using("outer", () => Promise.all([sibling("a", "b"), sibling("b", "a")]));
  expect(await within(system, 10_000, scope)).toContain("ERR_LOCK_TIMEOUT");
  expect(alarms).toEqual([]);
});

test("a scope waits while a plain acquire nested in it waits (P15)", async () => {
  const world = anyWorld();
  for (const [one, two] of [
    [world.locks(), world.locks()],
    [world.others(), world.others()],
  ] as const) {
    const nested = (locks: HoldfastLocks, label: string, first: string, second: string): Promise<unknown> =>
      locks
        .using(first, { label }, async () => {
          await new Promise<void>((resolve) => void world.system.after(20, resolve));
          const lease = await locks.acquire(second, { label, wait: WAIT });
          await lease.release();
        })
        .then(() => null)
        .catch((error: unknown) => error);
    const outcomes = await all(world, 2_000, [nested(one, "one", "a", "b"), nested(two, "two", "b", "a")]);
    expect(outcomes.filter((error) => error instanceof DeadlockError)).toHaveLength(1);
    expect(outcomes).toContain(null);
  }
});

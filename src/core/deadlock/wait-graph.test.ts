// The graph of who waits for whom: its knots against a plain reading of the definition, and what it costs.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type GraphKey, type GraphRecord, type GraphWait, WaitGraph, youngest } from "./wait-graph.ts";

interface Holding {
  readonly mode: "exclusive" | "shared";
  readonly permits: number;
  readonly waits: readonly GraphWait[];
}

function graphOf(holders: Readonly<Record<string, readonly Holding[]>>, writerWaits = false): WaitGraph {
  return new WaitGraph(keysOf(holders, writerWaits));
}

function keysOf(
  holders: Readonly<Record<string, readonly Holding[]>>,
  writerWaits: boolean,
): Map<string, GraphKey> {
  let fence = 0n;
  return new Map(
    Object.entries(holders).map(([key, holdings]) => [
      key,
      {
        writerWaits,
        holders: holdings.map((holding, i): GraphRecord => {
          fence += 1n;
          return {
            id: `${key}${i}`,
            key,
            label: `${key}${i}`,
            fence,
            generation: 0,
            limit: limits(key),
            ...holding,
          };
        }),
      },
    ]),
  );
}

const lock = (...on: string[]): GraphWait => ({ mode: "exclusive", permits: 1, limit: 1, on });
const holds = (...waits: GraphWait[]): Holding => ({ mode: "exclusive", permits: 1, waits });
const labels = (records: readonly GraphRecord[]): string[] => records.map(({ label }) => label).sort();
const knotsOf = (graph: WaitGraph): string[][] => graph.knots().map(({ records }) => labels(records));

/** Keys "s" and "d" are semaphores. */
function limits(key: string): number {
  return key === "s" || key === "d" ? 4 : 1;
}

/** The definition, read as plainly as it can be. */
function expectedKnots(keys: ReadonlyMap<string, GraphKey>): string[] {
  const stuck = new Set(
    [...keys.values()].flatMap(({ holders }) => holders.filter((one) => one.waits.length > 0)),
  );
  const blockers = (wait: GraphWait): GraphRecord[] =>
    wait.on.flatMap((id) => {
      const key = keys.get(id);
      const own = key?.holders.filter((one) => stuck.has(one)) ?? [];
      const permits = own.reduce((sum, one) => sum + one.permits, 0);
      if (wait.limit > 1 !== limits(id) > 1) return own;
      if (wait.limit > 1) return permits > wait.limit - wait.permits ? own : [];
      return wait.mode === "exclusive" || key?.writerWaits
        ? own
        : own.filter((one) => one.mode === "exclusive");
    });
  const next = (record: GraphRecord): GraphRecord[] => record.waits.flatMap(blockers);
  for (let before = -1; before !== stuck.size;) {
    before = stuck.size;
    for (const record of stuck) if (next(record).length === 0) stuck.delete(record);
  }
  const reaches = (from: GraphRecord): Set<GraphRecord> => {
    const found = new Set(next(from));
    for (const one of found) for (const further of next(one)) found.add(further);
    return found;
  };
  const reach = new Map([...stuck].map((record) => [record, reaches(record)]));
  const knots = [...stuck].map((one) =>
    [...stuck].filter((other) => other === one || (reach.get(one)?.has(other) && reach.get(other)?.has(one))),
  );
  return [...new Set(knots.filter((knot) => knot.length > 1).map((knot) => labels(knot).join()))].sort();
}

describe("knots", () => {
  const names = ["a", "b", "c", "d"];
  const anyWait: fc.Arbitrary<GraphWait> = fc.record({
    mode: fc.constantFrom("exclusive" as const, "shared" as const),
    permits: fc.integer({ min: 1, max: 2 }),
    limit: fc.constantFrom(1, 1, 3, 4),
    on: fc.uniqueArray(fc.constantFrom(...names, "free"), { minLength: 1, maxLength: 2 }),
  });
  const anyHolding: fc.Arbitrary<Holding> = fc.record({
    mode: fc.constantFrom("exclusive" as const, "shared" as const),
    permits: fc.integer({ min: 1, max: 2 }),
    waits: fc.array(anyWait, { maxLength: 2 }),
  });
  const anyHolders = fc.record(
    Object.fromEntries(names.map((name) => [name, fc.array(anyHolding, { maxLength: 3 })])),
  );

  test("are those of the definition", () => {
    fc.assert(
      fc.property(anyHolders, fc.boolean(), (holders, writerWaits) => {
        const keys = keysOf(holders, writerWaits);
        const knots = new WaitGraph(keys).knots().map(({ records }) => labels(records).join());
        expect(knots.sort()).toEqual(expectedKnots(keys));
      }),
      { numRuns: 2_000, seed: 1 },
    );
  });

  test("have a way from each record over others back to itself", () => {
    fc.assert(
      fc.property(anyHolders, (holders) => {
        for (const knot of graphOf(holders).knots()) {
          for (const record of knot.records) {
            const cycle = knot.cycle(record);
            const waitsForNext = cycle.map(({ waits }, i) => {
              const target = cycle[(i + 1) % cycle.length] as GraphRecord;
              return waits.some(({ on }) => on.includes(target.key));
            });
            // One expectation, because each costs more than the cycle.
            const found = [cycle[0], cycle.length > 1, new Set(cycle).size, waitsForNext.every(Boolean)];
            expect(found).toEqual([record, true, cycle.length, true]);
          }
        }
      }),
      { numRuns: 1_000, seed: 1 },
    );
  });

  test("do not contain what only waits for them", () => {
    const graph = graphOf({
      a: [holds(lock("b"))],
      b: [holds(lock("a"))],
      c: [holds(lock("a"))],
      d: [holds()],
    });
    expect(knotsOf(graph)).toEqual([["a0", "b0"]]);
    const [knot] = graph.knots();
    expect(knot?.blocks(lock("a"))).toBe(true);
    expect(knot?.blocks(lock("c"))).toBe(false);
    expect(youngest(knot?.records ?? []).label).toBe("b0");
  });

  test("that wait for a broken knot are deferred: permits that come back may end them", () => {
    const permit: GraphWait = { mode: "exclusive", permits: 1, limit: 2, on: ["s"] };
    const draw = (): WaitGraph =>
      graphOf({
        s: [holds(lock("y")), holds(lock("a"))],
        y: [holds(permit)],
        a: [holds(lock("b"))],
        b: [holds(lock("a"))],
      });
    const [offered, deferred]: [string[][], string[][]] = [[], []];
    const broken = draw().breakKnots(
      ({ records }) => offered.push(labels(records)) > 0,
      ({ records }) => deferred.push(labels(records)),
    );
    expect({ broken, offered, deferred }).toEqual({
      broken: true,
      offered: [["a0", "b0"]],
      deferred: [["s0", "y0"]],
    });
    const kept: string[][] = [];
    expect(draw().breakKnots(({ records }) => kept.push(labels(records)) < 0)).toBe(false);
    expect(kept).toEqual([
      ["a0", "b0"],
      ["s0", "y0"],
    ]);
  });
});

describe("the cost of a graph", () => {
  const shapes: Readonly<Record<string, (n: number) => Record<string, Holding[]>>> = {
    "a chain": (n) => named(n, (i) => [holds(lock(`k${i + 1}`))]),
    "a ring": (n) => named(n, (i) => [holds(lock(`k${(i + 1) % n}`))]),
    "pairs that wait for each other": (n) =>
      named(n, (i) => [holds(lock(`k${i % 2 === 0 ? i + 1 : i - 1}`))]),
    "waiters for one key": (n) => ({ ...named(n, () => [holds(lock("hot"))]), hot: [holds()] }),
    "waiters for one key in a ring": (n) => ({
      ...named(n, () => [holds(lock("hot"))]),
      hot: [holds(lock("k0"))],
    }),
    "readers that wait for each other's key": (n) => ({
      a: many(n, { mode: "shared", permits: 1, waits: [lock("b")] }),
      b: many(n, { mode: "shared", permits: 1, waits: [lock("a")] }),
    }),
    "holders of one semaphore that want more": (n) => ({
      s: many(n, {
        mode: "exclusive",
        permits: 1,
        waits: [{ mode: "exclusive", permits: 1, limit: n, on: ["s"] }],
      }),
    }),
    "a scope with many waiting calls": (n) => ({
      ...named(n, () => [holds()]),
      scope: [holds(...Array.from({ length: n }, (_none, i) => lock(`k${i}`)))],
    }),
  };

  test.each(Object.keys(shapes))("of %s grows with its edges", (name) => {
    const cost = (n: number): number => {
      const graph = graphOf((shapes[name] as (n: number) => Record<string, Holding[]>)(n));
      graph.breakKnots(({ records, cycle }) => cycle(youngest(records)).length > 1);
      return graph.steps;
    };
    const [small, large] = [cost(500), cost(5_000)];
    expect(large / small).toBeLessThan(10.5);
    expect(large).toBeLessThan(12 * 2 * 5_000);
  });
});

function named(n: number, holders: (i: number) => Holding[]): Record<string, Holding[]> {
  return Object.fromEntries(Array.from({ length: n }, (_none, i) => [`k${i}`, holders(i)]));
}

function many(n: number, holding: Holding): Holding[] {
  return Array.from({ length: n }, () => holding);
}

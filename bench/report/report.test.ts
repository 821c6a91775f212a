// The one reader of benchmark results, on the shapes that the suites write, and what is drawn from it.

import { expect, test } from "vitest";
import { readSuite } from "./read.ts";
import { barChart } from "./svg.ts";
import { figure, withPart } from "../../scripts/generated.ts";

const machine = { node: "v20.0.0", cores: 2, platform: "linux" };

test("figures by library, with spread, Jain index and longest wait", () => {
  const suite = readSuite("redis", {
    measured: "2026-01-01",
    machine,
    runs: 3,
    sequential: {
      aim: "p50 at most 1.2 x bare",
      figures: [{ library: "bare", p50Us: 250, p99Us: 900, ofBare: 1 }],
    },
    manyKeys: { figures: [{ library: "holdfast", cyclesPerSecond: { median: 9, low: 8, high: 10 } }] },
    hotKey: {
      figures: [
        {
          library: "holdfast",
          options: { handoff: 0 },
          processes: 2,
          tasks: 25,
          sectionMs: 0,
          sectionsPerSecond: 7,
          jain: 1,
          longestWaitMs: 5,
        },
      ],
    },
    handOff: { handOffs: 3, p50Ms: 0.3, kazoo: { p50Ms: 0.5 } },
  });
  expect(suite.latency).toEqual([
    { part: "sequential", library: "bare", p50Ms: 0.25, p99Ms: 0.9 },
    { part: "hand-off", library: "holdfast", p50Ms: 0.3 },
    { part: "hand-off", library: "kazoo", p50Ms: 0.5 },
  ]);
  expect(suite.throughput).toEqual([
    {
      part: "many keys",
      library: "holdfast",
      setting: "",
      sectionMs: null,
      perSecond: { median: 9, low: 8, high: 10 },
    },
    {
      part: "hot key",
      library: "holdfast, handoff: 0",
      setting: "2 x 25 tasks",
      sectionMs: 0,
      perSecond: { median: 7 },
      jain: 1,
      longestWaitMs: 5,
    },
  ]);
  expect(suite.aims).toEqual([{ path: "sequential", value: "p50 at most 1.2 x bare" }]);
  expect(suite.others).toContainEqual({ path: "hand-off, hand-offs", value: "3" });
  expect(suite.settings).toBe("runs 3");
});

test("figures by name: pairs in one object, microseconds in a map, a record per library", () => {
  const pairs = readSuite("local", {
    oneNode: {
      uncontended: { bareTwoRoundsUs: 10, acquireReleaseP50Ms: 1, acquireReleaseP99Ms: 3, ratio: 4 },
    },
  });
  expect(pairs.latency).toEqual([
    { part: "one node, uncontended", library: "bare, two rounds", p50Ms: 0.01 },
    { part: "one node, uncontended", library: "holdfast", p50Ms: 1, p99Ms: 3 },
  ]);
  expect(pairs.others).toEqual([{ path: "one node, uncontended, ratio", value: "4" }]);
  const map = readSuite("mysql", { uncontended: { us: { bareRowLock: 100, holdfastRow: 200 } } });
  expect(map.latency.map(({ library, p50Ms }) => [library, p50Ms])).toEqual([
    ["bare, row lock", 0.1],
    ["holdfast, row", 0.2],
  ]);
  const records = readSuite("postgres", {
    uncontended: { bare: { p50Ms: 1 }, table: { p50Ms: 2 } },
    hotKey: { table: { sectionsPerSecond: 5, fairness: 0.9 } },
  });
  expect(records.latency.map(({ library }) => library)).toEqual(["bare", "holdfast, table"]);
  expect(records.throughput).toMatchObject([
    { part: "hot key", library: "holdfast, table", sectionMs: 1, jain: 0.9 },
  ]);
});

test("a record per library is a table, numbers in a row stay in one, and nothing is left out", () => {
  const suite = readSuite("losses", {
    figures: [
      { library: "holdfast", frozen: { toldAfterMs: 5 }, ok: true },
      { library: "peer", frozen: { toldAfterMs: null } },
    ],
    ring: { all: [1, 2, 3] },
  });
  expect(suite.tables).toEqual([
    {
      part: "",
      head: ["", "frozen, told after ms", "ok"],
      rows: [
        ["holdfast", "5", "true"],
        ["peer", "none", ""],
      ],
    },
  ]);
  expect(suite.others).toEqual([{ path: "ring, all", value: "1, 2, 3" }]);
});

test("bars that are far apart are drawn by orders of magnitude, and names are escaped", () => {
  const bars = [
    { name: "a<b", value: 10, kind: "peer" as const },
    { name: "ours", value: 100_000, low: 90_000, high: 110_000, kind: "ours" as const, note: "Jain 1" },
  ];
  const svg = barChart({ title: "t & u", unit: "per second", better: "more", bars });
  expect(svg).toContain("a&lt;b");
  expect(svg).toContain("t &amp; u");
  expect(svg).toContain("ten times");
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  expect(svg.indexOf("ours</text>")).toBeLessThan(svg.indexOf("a&lt;b</text>"));
});

test("a part of a page is replaced between its marks, and nowhere else", () => {
  const page = "x\n<!-- p:begin (by y) -->\nold\n<!-- p:end -->\nz\n";
  expect(withPart(page, "p", "new $1\n")).toBe("x\n<!-- p:begin (by y) -->\nnew $1\n<!-- p:end -->\nz\n");
  expect(() => withPart(page, "q", "")).toThrow(/no q:begin/);
  expect([1_234_567.8, 12.345, 0.2713, 0, null].map(figure)).toEqual(["1,234,568", "12.3", "0.271", "0", ""]);
});

// How journals become one history, and what is made of the remarks that only real processes write.

import { describe, expect, it } from "vitest";
import { figuresOf } from "../../faults/figures.ts";
import { linesOf, NEMESIS, order } from "../../faults/histories.ts";
import type { JournalLine } from "../../faults/journal.ts";
import { page, type Result } from "../../faults/results.ts";
import { judge } from "../../faults/verdict.ts";
import { callTimeoutMs } from "../../src/core/util/store-call.ts";
import { localGuarantees } from "../../src/stores/local/index.ts";
import { zookeeperGuarantees } from "../../src/stores/zookeeper/guarantees.ts";

const ask = (at: number, client: string, name: string): JournalLine => ({
  ...{ type: "ask", at, client, ask: name, keys: ["k"], mode: "exclusive" },
  ...{ permits: 1, limit: 1, ttlMs: 500, waitMs: 1_000 },
});
const granted = (
  at: number,
  client: string,
  name: string,
  fence: string,
  remainingMs = 500,
): JournalLine => ({
  ...{ type: "granted", at, client, ask: name, lease: `k@${fence}`, fences: [fence], remainingMs },
});
const state = (type: "paused" | "resumed" | "crashed", at: number, client = "a"): JournalLine => ({
  type,
  at,
  client,
});

function checkersOf(lines: readonly JournalLine[]): string[] {
  return judge(order(lines), localGuarantees).violations.map((one) => one.checker);
}

describe("a history", () => {
  it("is in order of time, and of one process in the order in which it wrote", () => {
    const lines = [ask(5, "a", "a/1"), ask(5, "a", "a/2"), ask(3, "b", "b/1")];
    const names = order(lines).events.map((event) => (event.type === "ask" ? event.ask : ""));
    expect(names).toEqual(["b/1", "a/1", "a/2"]);
  });

  it("loses at most the line that a kill cut in half", () => {
    const text = `${JSON.stringify(ask(1, "a", "a/1"))}\n{"type":"gran`;
    expect(linesOf(text)).toEqual([ask(1, "a", "a/1")]);
    expect(linesOf("")).toEqual([]);
  });

  it("lets nobody die before its last words", () => {
    const { events } = order([ask(1, "a", "a/1"), granted(11, "a", "a/1", "1"), state("crashed", 10)]);
    expect(events.at(-1)).toEqual({ type: "crashed", at: 11, client: "a" });
  });

  it("takes the parent's word that the machine stood still, for those who were killed before they could say so", () => {
    const stall: JournalLine = { type: "stall", at: 100, client: "nemesis", untilMs: 400 };
    const silent = [ask(90, "a", "a/1"), state("crashed", 401)];
    expect(order([stall, ...silent]).events.map(({ type }) => type)).toEqual([
      "ask",
      "paused",
      "resumed",
      "crashed",
    ]);
    const awake = [ask(90, "a", "a/1"), ask(401, "a", "a/2"), state("crashed", 402)];
    expect(order([stall, ...awake]).events.map(({ type }) => type)).toEqual(["ask", "ask", "crashed"]);
  });

  it("joins what overlaps of a client's pauses and stalls", () => {
    const stall: JournalLine = { type: "stall", at: 95, client: "a", untilMs: 212 };
    const { events } = order([state("paused", 100), state("resumed", 200), stall, state("paused", 300)]);
    expect(events.map(({ type, at }) => [type, at])).toEqual([
      ["paused", 95],
      ["resumed", 212],
      ["paused", 300],
    ]);
  });
});

describe("the verdict", () => {
  const one = [ask(0, "a", "a/1"), granted(10, "a", "a/1", "1")];

  it("finds nothing where nothing is wrong", () => {
    const lines = [...one, state("crashed", 200), ask(100, "b", "b/1"), granted(201, "b", "b/1", "2")];
    expect(checkersOf(lines)).toEqual([]);
  });

  it("has no slack for an overlap (P1)", () => {
    const lines = [...one, ask(100, "b", "b/1"), granted(509.9, "b", "b/1", "2")];
    expect(checkersOf(lines)).toEqual(["exclusion", "linearizability"]);
  });

  it("excuses a lease that was over at its grant only where its client did not run (P8)", () => {
    const over: JournalLine = { type: "over-at-grant", at: 900, client: "a", what: "k@1" };
    expect(checkersOf([over])).toEqual(["over-at-grant"]);
    expect(checkersOf([over, state("paused", 300), state("resumed", 899)])).toEqual([]);
    expect(checkersOf([over, state("paused", 300, "b"), state("resumed", 899, "b")])).toEqual([
      "over-at-grant",
    ]);
  });

  it("excuses it too where its client's wall clock was set just then, and the store goes by that clock (P8)", () => {
    const over: JournalLine = { type: "over-at-grant", at: 900, client: "a", what: "k@1" };
    const set = (at: number, client: string): JournalLine => ({
      ...{ type: "fault", at, what: `wall clock of ${client} at 3600000 ms` },
    });
    const found = (strike: JournalLine, setsClocks = true): string[] =>
      judge(order([strike, over]), zookeeperGuarantees(), { setsClocks }).violations.map(
        ({ checker }) => checker,
      );
    expect(found(set(899.6, "a"))).toEqual([]);
    for (const [at, client] of [
      [899.6, "b"],
      [840, "a"],
      [901, "a"],
    ] as const)
      expect(found(set(at, client))).toEqual(["over-at-grant"]);
    expect(found(set(899.6, "a"), false)).toEqual(["over-at-grant"]);
  });

  it("takes the parent's stalls off what an ask took, once and only where they overlap it (P13)", () => {
    const asked = ask(0, "b", "b/1"); // may take 1,000 ms and one call
    const stall = (client: string, at: number, untilMs: number): JournalLine => ({
      ...{ type: "stall", at, client, untilMs },
    });
    const boundMs = 1_000 + callTimeoutMs(500);
    const late = granted(boundMs + 700, "b", "b/1", "1");
    expect(checkersOf([asked, late])).toEqual(["bounds"]);
    expect(checkersOf([asked, late, stall(NEMESIS, 100, 800)])).toEqual([]);
    expect(checkersOf([asked, late, stall(NEMESIS, 100, 500), stall("b", 200, 800)])).toEqual([]);
    expect(checkersOf([asked, late, stall(NEMESIS, 100, 500), stall("b", 100, 500)])).toEqual(["bounds"]);
    expect(checkersOf([asked, late, stall(NEMESIS, 9_000, 9_900)])).toEqual(["bounds"]);
    expect(checkersOf([asked, late, stall("c", 100, 800)])).toEqual(["bounds"]);
  });

  it("takes them off what a probe waited for, too (P10)", () => {
    const healed: JournalLine = { type: "healed", at: 0, what: "" };
    const waited = [healed, ask(0, "probe", "probe/1"), granted(20_000, "probe", "probe/1", "1")];
    const stall: JournalLine = { type: "stall", at: 100, client: NEMESIS, untilMs: 19_900 };
    expect(checkersOf(waited)).toContain("recovery");
    expect(checkersOf([...waited, stall])).toEqual([]);
  });

  it("counts from the first ask of a probe that had to ask again, which must have been granted in the end (P10)", () => {
    const healed: JournalLine = { type: "healed", at: 0, what: "" };
    const refused = (at: number, name: string): JournalLine => ({
      ...{ type: "refused", at, client: "probe", ask: name, code: "ERR_STORE_UNAVAILABLE" },
    });
    const again = [healed, ask(0, "probe", "probe/1"), refused(500, "probe/1")];
    expect(checkersOf(again)).toEqual(["recovery"]);
    const had = (at: number): JournalLine[] => [
      ask(at - 10, "probe", "probe/2"),
      granted(at, "probe", "probe/2", "1"),
    ];
    expect(checkersOf([...again, ...had(800)])).toEqual([]);
    expect(checkersOf([...again, ...had(20_000)])).toEqual(["recovery"]);
  });

  it("excuses no overlap because the machine stood still (P1)", () => {
    const stall: JournalLine = { type: "stall", at: 20, client: NEMESIS, untilMs: 500 };
    const lines = [...one, stall, ask(100, "b", "b/1"), granted(509.9, "b", "b/1", "2")];
    expect(checkersOf(lines)).toEqual(["exclusion", "linearizability"]);
  });

  it("holds exclusion against a store that is fenced until the first strike (P1)", () => {
    const histories = order([...one, ask(100, "b", "b/1"), granted(300, "b", "b/1", "2")]);
    const found = (safeUntilMs: number): string[] =>
      judge(histories, localGuarantees, { expected: "fenced", safeUntilMs }).violations.map(
        (violation) => violation.checker,
      );
    expect(found(300)).toEqual([]);
    expect(found(301)).toEqual(["exclusion"]);
  });

  it("fails a run in which a process ended by itself (P17)", () => {
    const ended: JournalLine = { type: "ended-by-itself", at: 1, client: "resource", what: "ended with 1" };
    expect(checkersOf([ended])).toEqual(["ended-by-itself"]);
  });
});

describe("the figures", () => {
  it("measure recovery from the fault to the next grant, and loop delays of those that ran", () => {
    const histories = order([
      ask(0, "a", "a/1"),
      granted(10, "a", "a/1", "1"),
      state("crashed", 100),
      ask(50, "b", "b/1"),
      granted(130, "b", "b/1", "2"),
      { type: "stall", at: 140, client: "b", untilMs: 160 },
      state("paused", 300, "b"),
      { type: "stall", at: 298, client: "b", untilMs: 410 },
      state("resumed", 405, "b"),
    ]);
    const figures = figuresOf(judge(histories, localGuarantees), histories);
    expect(figures).toMatchObject({
      grants: 2,
      losses: 1,
      killedHolders: 1,
      longestRecoveryMs: 30,
      longestLoopDelayMs: 20,
    });
  });

  it("become one row of the page each, and count in the sums of their store and fault", () => {
    const histories = order([]);
    const figures = figuresOf(judge(histories, localGuarantees), histories);
    const result: Result = {
      store: "local",
      fault: "kill",
      seed: 7,
      seconds: 9,
      clients: 6,
      measured: "2026-11-19",
      versions: { node: "v20.0.0", holdfast: "0.0.0", source: "cafe" },
      ...figures,
    };
    expect(page([result])).toContain("| local | kill | safe | 9 | 7 | 0 | 0 |");
    const cut: Result = {
      ...result,
      store: "redis",
      fault: "cut",
      expected: "fenced",
      grants: 12,
      overlaps: 3,
    };
    const bad: Result = { ...cut, fault: "kill", violations: 2 };
    const written = page([result, cut, { ...cut, seed: 8 }, bad]);
    expect(written).toContain("v20.0.0, 2026-11-19: 4 runs");
    expect(written).toContain("| redis | 3 | 2 | 0.5 | 0 | 36 | 0 | 0 | 9 | 0 | 2 |");
    expect(written).toContain("| fault | local | redis |");
    expect(written).toContain("| kill | 0 | **2 of 12** |");
    expect(written).toContain("| cut | · | 24 (6) |");
  });
});

// Which faults a mix is made of, and that it does not end before each of them has struck.

import { describe, expect, it } from "vitest";
import { parse } from "../../faults/command.ts";
import { order } from "../../faults/histories.ts";
import { mixed } from "../../faults/plugins/mixed.ts";
import { MIXED, pluginFor } from "../../faults/plugins/index.ts";
import { nothing, type Plugin, type Run } from "../../faults/plugins/plugin.ts";
import type { FaultyServer, Target, Trick } from "../../faults/targets/target.ts";
import { expected, safeUntilMs } from "../../faults/verdict.ts";
import { Random } from "../../sim/world/random.ts";
import { localGuarantees } from "../../src/stores/local/index.ts";

const server: FaultyServer = { name: "one", port: 1, kill: nothing, freeze: () => {}, thaw: () => {} };
const bare: Target = { url: "", guarantees: localGuarantees, servers: [], stop: nothing };
const served: Target = { ...bare, servers: [server], through: () => "", survives: ["connection lost"] };
const session: Target = { ...served, survives: [] };
const failover: Trick = {
  everyMs: [0, 0],
  forMs: [0, 0],
  survives: "failover",
  begin: nothing,
  end: nothing,
};

const partsOf = (target: Target, seed = 1): string[] =>
  (pluginFor(MIXED, target, seed).parts ?? []).map(({ name }) => name);

describe("a mix of faults", () => {
  it("has what the store can have, and no more", () => {
    expect(partsOf(bare)).toEqual(["kill", "pause", "shutdown", "blocked-loop"]);
    const always = ["kill", "pause", "server-freeze", "swallowed-replies"];
    expect(partsOf(served)).toEqual(expect.arrayContaining(always));
    expect(partsOf({ ...served, servers: [] })).not.toContain("server-freeze");
  });

  it("has others by another seed, and the same by the same", () => {
    const seeds = Array.from({ length: 20 }, (_, seed) => partsOf(served, seed).join());
    expect(new Set(seeds).size).toBeGreaterThan(3);
    expect(partsOf(served, 7)).toEqual(partsOf(served, 7));
  });

  it("takes nothing in that would loosen what is held against the store", () => {
    const target = { ...bare, tricks: { failover } };
    for (let seed = 0; seed < 20; seed += 1) {
      expect(partsOf(target, seed)).not.toContain("failover");
      expect(expected(pluginFor(MIXED, served, seed), served)).toBe("safe");
      // As locks that end with their connection: the replies that are swallowed end it.
      expect(expected(pluginFor(MIXED, session, seed), session)).toBe("fenced");
    }
  });

  it("is fenced where one of its parts is, from that one's first strike on", () => {
    const target = { ...bare, tricks: { "primary-freeze": failover } };
    const plugin = pluginFor(MIXED, target, 1);
    expect(expected(plugin, target)).toBe("fenced");
    const marks = ["kill: kill c1", "primary-freeze: primary-freeze for 0 ms"];
    const histories = order(marks.map((what, at) => ({ type: "fault" as const, at, what })));
    expect(safeUntilMs(plugin, target, histories)).toBe(1);
    expect(safeUntilMs(plugin, target, order([]))).toBe(Number.POSITIVE_INFINITY);
  });

  it("goes on until each part has struck, and those that may break exclusion strike last", async () => {
    let shy = 5;
    const part = (name: string, strikes: () => boolean = () => true): Plugin => ({
      ...{ name, everyMs: [0, 0], start: nothing, stop: nothing },
      strike: ({ mark }) => Promise.resolve(strikes() ? mark("x") : undefined),
    });
    const plugin = mixed({ safe: [part("a"), part("b", () => (shy -= 1) < 0)], fenced: [part("c")] });
    const marks: string[] = [];
    const run = { mark: (what: string) => marks.push(what) } as unknown as Run;
    const random = new Random(3);
    for (let strikes = 0; strikes < 3; strikes += 1) await plugin.strike(run, random);
    expect(marks.filter((mark) => mark.startsWith("c"))).toEqual([]);
    for (let strikes = 0; plugin.owes?.() === true && strikes < 20; strikes += 1)
      await plugin.strike(run, random);
    expect([...new Set(marks)].toSorted()).toEqual(["a: x", "b: x", "c: x"]);
  });
});

describe("the command", () => {
  it("understands what it is asked for, and keeps no result of what no page tells of", () => {
    expect(parse(["--store", "redis", "--grace", "3s", "--seed", "7"])).toMatchObject({
      ...{ do: "one", store: "redis", keepsResult: false },
      settings: { seed: 7, graceMs: 3_000 },
    });
    expect(parse(["--fault", "kill"]).keepsResult).toBe(true);
    expect(parse(["--fault", MIXED]).keepsResult).toBe(false);
    expect(parse(["--list"]).do).toBe("list");
  });

  it("refuses what it does not know", () => {
    expect(() => parse(["--sed", "7"])).toThrow(/--sed/);
    expect(() => parse(["--seed", "x"])).toThrow(/whole number/);
    expect(() => parse(["--store", "floppy"])).toThrow(/floppy/);
    expect(() => parse(["--grace", "3x"])).toThrow(/duration/);
  });
});

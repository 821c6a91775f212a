// The counter fuzz over processes: every section reads, waits and writes, and writes down when it was in.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import type { ProcessCase } from "../case.ts";
import type { Child } from "../child-process.ts";
import { handled, sleep } from "../io.ts";
import { severalProcesses } from "../requirements.ts";
import type { ProcessContext } from "../process-context.ts";
import { checkSections } from "../critical-section-log.ts";

const TIMES = 40;

interface Counter {
  readonly file: string;
  readonly log: string;
}

function startCounter(ctx: ProcessContext): Counter {
  const counter = { file: ctx.file("counter"), log: ctx.file("log") };
  writeFileSync(counter.file, "0".padStart(12));
  writeFileSync(counter.log, "");
  return counter;
}

function read({ file, log }: Counter): { readonly value: number; readonly lines: readonly string[] } {
  return {
    value: Number(readFileSync(file, "utf8")),
    lines: readFileSync(log, "utf8").split("\n").slice(0, -1),
  };
}

function count(child: Child, key: string, counter: Counter, ttl: number): Promise<{ readonly done: number }> {
  return child.call("count", { key, ...counter, times: TIMES, ttl });
}

export const counterCases: readonly ProcessCase[] = [
  {
    id: "process/counter",
    sentence:
      "a counter that several processes raise loses no update, no two sections overlap, and fences grow in their order",
    promises: ["P1", "P3", "P11"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const children = await ctx.children(4);
      const counter = startCounter(ctx);
      const key = ctx.key();
      await Promise.all(children.map((child) => count(child, key, counter, 30_000)));
      const { value, lines } = read(counter);
      assert.equal(checkSections(lines).finished, children.length * TIMES);
      assert.equal(value, children.length * TIMES);
    },
  },
  {
    id: "process/counter-killed",
    sentence: "processes that are killed in the middle cost the others no update and no order",
    promises: ["P1", "P3", "P10"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const children = await ctx.children(4);
      const counter = startCounter(ctx);
      const key = ctx.key();
      const [first, second, ...survivors] = children as [Child, Child, ...Child[]];
      for (const child of [first, second])
        child.start("count", { key, ...counter, times: 100_000, ttl: 1_000 });
      // Those who live must not lose their leases to a slow machine.
      const working = survivors.map((child) => handled(count(child, key, counter, 10_000)));
      for (const child of [first, second]) {
        await sleep(150);
        await child.kill();
      }
      await Promise.all(working);
      const { value, lines } = read(counter);
      const mortal = new Set([first, second].map((child) => String(child.pid)));
      const { finished, unfinished } = checkSections(lines, mortal);
      assert.ok(finished >= survivors.length * TIMES, `only ${finished} sections were finished`);
      assert.ok(value >= finished && value <= finished + unfinished, `${value} after ${finished} sections`);
    },
  },
];

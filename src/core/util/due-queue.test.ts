// The order and the size of the queue of due times, compared with a plain list.

import fc from "fast-check";
import { expect, test } from "vitest";
import { DueQueue } from "./due-queue.ts";

const op = fc.oneof(
  fc.record({ op: fc.constant("set" as const), who: fc.nat(20), dueMs: fc.nat(10) }),
  fc.record({ op: fc.constant("delete" as const), who: fc.nat(20) }),
  fc.record({ op: fc.constant("take" as const), dueMs: fc.nat(10), most: fc.integer({ min: 1, max: 5 }) }),
);

test("gives what a sorted list gives, in the order of the due times and then of the calls", () => {
  const entries = Array.from({ length: 21 }, (_, who) => ({ who }));
  fc.assert(
    fc.property(fc.array(op, { maxLength: 400 }), (ops) => {
      const queue = new DueQueue<{ readonly who: number }>();
      let list: { readonly who: number; readonly dueMs: number }[] = [];
      for (const one of ops) {
        if (one.op === "set") {
          queue.set(entries[one.who] as { who: number }, one.dueMs);
          list = [...list.filter(({ who }) => who !== one.who), one];
          // The sort is stable: among equals the one that was set first comes first.
          list.sort((a, b) => a.dueMs - b.dueMs);
        } else if (one.op === "delete") {
          const had = list.some(({ who }) => who === one.who);
          expect(queue.delete(entries[one.who] as { who: number })).toBe(had);
          list = list.filter(({ who }) => who !== one.who);
        } else {
          const due = list.filter(({ dueMs }) => dueMs <= one.dueMs).slice(0, one.most);
          expect(queue.takeDue(one.dueMs, one.most).map(({ who }) => who)).toEqual(due.map(({ who }) => who));
          list = list.filter((each) => !due.includes(each));
        }
        expect(queue.size).toBe(list.length);
        expect(queue.first()?.dueMs).toBe(list[0]?.dueMs);
      }
    }),
  );
});

test("200,000 short-lived entries beside 10,000 long ones cost milliseconds, not a scan each (P20)", () => {
  const queue = new DueQueue<object>();
  for (let at = 0; at < 10_000; at += 1) queue.set({}, 1e9 + at);
  const startedMs = performance.now();
  for (let at = 0; at < 200_000; at += 1) {
    const entry = {};
    queue.set(entry, at);
    queue.delete(entry);
  }
  // A scan of 10,000 entries for each would take a minute.
  expect(performance.now() - startedMs).toBeLessThan(20_000);
  expect(queue.size).toBe(10_000);
});

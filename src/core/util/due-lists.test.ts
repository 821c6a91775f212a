import { expect, test } from "vitest";
import { VirtualSystem } from "../../testing/virtual-system.ts";
import { DueEntry, DueLists } from "./due-lists.ts";

class Named extends DueEntry {
  readonly name: string;

  constructor(name: string) {
    super();
    this.name = name;
  }
}

function world(): { system: VirtualSystem; lists: DueLists<Named>; rang: string[] } {
  const system = new VirtualSystem({ seed: 1 });
  const rang: string[] = [];
  const lists = new DueLists<Named>(system, (due) => rang.push(due.map(({ name }) => name).join(" ")));
  return { system, lists, rang };
}

test("entries onDue in the order of their due times, whatever the order in which they came", async () => {
  const { system, lists, rang } = world();
  const nowMs = system.monoMs();
  lists.set(new Named("second"), 100, nowMs + 100);
  lists.set(new Named("first"), 100, nowMs + 50);
  lists.set(new Named("third"), 100, nowMs + 150);
  lists.set(new Named("other"), 70, nowMs + 70);
  await system.advance(200);
  expect(rang).toEqual(["first", "other", "second", "third"]);
});

test("an entry rings once, at its last due time, and not after it was deleted", async () => {
  const { system, lists, rang } = world();
  const [moved, deleted] = [new Named("moved"), new Named("deleted")];
  const nowMs = system.monoMs();
  lists.set(moved, 10, nowMs + 10);
  lists.set(deleted, 10, nowMs + 10);
  lists.set(moved, 30, nowMs + 30);
  expect([lists.delete(deleted), lists.delete(deleted)]).toEqual([true, false]);
  await system.advance(20);
  expect(rang).toEqual([]);
  await system.advance(100);
  expect(rang).toEqual(["moved"]);
});

test("take gives what is due in all lists, and what was taken does not onDue", async () => {
  const { system, lists, rang } = world();
  const nowMs = system.monoMs();
  for (const ms of [10, 20, 30]) lists.set(new Named(String(ms)), ms, nowMs + ms);
  expect(lists.take(nowMs + 20).map(({ name }) => name)).toEqual(["10", "20"]);
  await system.advance(100);
  expect(rang).toEqual(["30"]);
});

test("a listener may set the entry again", async () => {
  const system = new VirtualSystem({ seed: 1 });
  let rings = 0;
  const entry = new DueEntry();
  const lists: DueLists<DueEntry> = new DueLists<DueEntry>(system, () => {
    rings += 1;
    lists.set(entry, 10, system.monoMs() + 10);
  });
  lists.set(entry, 10, system.monoMs() + 10);
  await system.advance(55);
  expect(rings).toBe(5);
  lists.stop();
  await system.advance(55);
  expect(rings).toBe(5);
});

test("100,000 entries that end in another order than they came cost no search", () => {
  const { system, lists } = world();
  const entries = Array.from({ length: 100_000 }, (_none, i) => new Named(String(i)));
  const startMs = performance.now();
  for (const entry of entries) lists.set(entry, 1_000, system.monoMs() + 1_000);
  for (let i = 0; i < entries.length; i += 1) lists.delete(entries[(i * 7_919) % entries.length] as Named);
  expect(lists.take(Number.POSITIVE_INFINITY)).toEqual([]);
  expect(performance.now() - startMs).toBeLessThan(5_000);
});

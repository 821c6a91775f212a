// A ballot that asks a majority first: the others are asked when they are needed, and not before.

import { expect, it } from "vitest";
import { ballot, type Voter } from "./quorum.ts";

interface Named extends Voter {
  readonly name: string;
}

/** Five nodes that answer what the test says, or nothing; time passes when the test says so. */
function world(answers: Readonly<Record<string, boolean | Error>>): {
  readonly asked: string[];
  readonly nodes: readonly Named[];
  ring(): void;
  run(): ReturnType<typeof ballot<Named, boolean, boolean>>;
} {
  const nodes = ["a", "b", "c", "d", "e"].map((name): Named => ({ name, doubted: false, slow: false }));
  const asked: string[] = [];
  const timers = new Set<() => void>();
  return {
    asked,
    nodes,
    ring: () => {
      const [first] = timers;
      timers.clear();
      first?.();
    },
    run: () =>
      ballot<Named, boolean, boolean>(nodes, {
        ask({ name }) {
          asked.push(name);
          const answer = answers[name];
          if (answer instanceof Error) return Promise.reject(answer);
          return answer === undefined ? new Promise(() => {}) : Promise.resolve(answer);
        },
        decide(votes) {
          const yes = votes.filter((vote) => vote.state === "answered" && vote.answer).length;
          const open = votes.filter((vote) => vote.state === "pending").length;
          if (yes >= 3) return true;
          return yes + open < 3 ? false : null;
        },
        patienceMs: 1_000,
        later(_ms, fn) {
          timers.add(fn);
          return () => timers.delete(fn);
        },
        vanguard: { nodes: new Set(nodes.slice(0, 3)), patienceMs: 10, agrees: (answer) => answer },
      }),
  };
}

it("a majority that agrees is enough, and nobody else is asked", async () => {
  const { asked, run } = world({ a: true, b: true, c: true });
  expect(await run()).toMatchObject({ decision: true, whole: false });
  expect(asked).toEqual(["a", "b", "c"]);
});

it("one that refuses makes the others be asked at once", async () => {
  const { asked, run } = world({ a: true, b: false, c: true, d: true, e: true });
  expect(await run()).toMatchObject({ decision: true, whole: true });
  expect(asked).toEqual(["a", "b", "c", "d", "e"]);
});

it("one that is silent is slow, the others are asked, and they decide", async () => {
  const { asked, nodes, ring, run } = world({ a: true, c: true, d: true });
  const outcome = run();
  await new Promise((resolve) => setImmediate(resolve));
  expect(asked).toEqual(["a", "b", "c"]);
  ring();
  expect(await outcome).toMatchObject({ decision: true, whole: true });
  expect(asked).toEqual(["a", "b", "c", "d", "e"]);
  expect(nodes.filter(({ slow }) => slow).map(({ name }) => name)).toEqual(["b"]);
  expect(nodes.some(({ doubted }) => doubted)).toBe(false);
});

it("where nobody decides, those who are still silent when the patience is over are doubted", async () => {
  const { nodes, ring, run } = world({ a: true, c: true });
  const outcome = run();
  await new Promise((resolve) => setImmediate(resolve));
  ring();
  await new Promise((resolve) => setImmediate(resolve));
  ring();
  expect(await outcome).toMatchObject({ decision: false, whole: true });
  expect(nodes.filter(({ doubted }) => doubted).map(({ name }) => name)).toEqual(["b", "d", "e"]);
});

it("a call that fails is not a sign of life: its node is not asked first until it has answered", async () => {
  const { nodes, run } = world({ a: new Error("given up"), b: true, c: true, d: true, e: true });
  const [a, b] = nodes as [Named, Named];
  Object.assign(a, { slow: true, doubted: true });
  b.slow = true;
  expect(await run()).toMatchObject({ decision: true, whole: true });
  expect([a.slow, a.doubted, b.slow]).toEqual([true, true, false]);
});

// When a call ends, and which nodes it waits for.

import { expect, it } from "vitest";
import { VirtualSystem } from "../../testing/virtual-system.ts";
import { count, countPending, Deadlines, QuorumCall, type Voter } from "./quorum-call.ts";

interface Named extends Voter {
  readonly name: string;
}

/** Five nodes that answer what the test says, or nothing. A majority of "yes" decides. */
class TestCall extends QuorumCall<Named, boolean> {
  readonly asked: string[] = [];
  readonly outcome: Promise<boolean>;
  #resolve: (isGranted: boolean) => void = () => {};
  readonly #answers: Readonly<Record<string, boolean | Error>>;

  constructor(nodes: readonly Named[], system: VirtualSystem, answers: Record<string, boolean | Error>) {
    super(nodes, new Deadlines(system), 1_000);
    this.#answers = answers;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  protected send({ name }: Named, at: number): void {
    this.asked.push(name);
    const answer = this.#answers[name];
    if (answer === undefined) return;
    queueMicrotask(() =>
      this.heard(
        at,
        answer instanceof Error ? { state: "failed", error: answer } : { state: "answered", answer },
      ),
    );
  }

  get #yes(): number {
    return count(this.votes, (answer) => answer);
  }

  protected decide(): boolean {
    return this.#yes >= 3 || this.#yes + countPending(this.votes) < 3;
  }

  protected ended(): void {
    this.#resolve(this.#yes >= 3);
  }
}

function begin(
  answers: Record<string, boolean | Error>,
  nodes: readonly Named[] = makeNodes(),
): { readonly call: TestCall; readonly nodes: readonly Named[]; readonly system: VirtualSystem } {
  const system = new VirtualSystem();
  const call = new TestCall(nodes, system, answers);
  call.start();
  return { call, nodes, system };
}

function makeNodes(): Named[] {
  return ["a", "b", "c", "d", "e"].map((name) => ({ name, isSuspect: false }));
}

it("a majority that agrees is enough: the call does not wait for the others", async () => {
  const { call } = begin({ a: true, c: true, e: true });
  expect(await call.outcome).toBe(true);
  expect(call.asked).toEqual(["a", "b", "c", "d", "e"]);
});

it("where nobody decides, those who are still silent when the timeout is over are suspect", async () => {
  const { call, nodes, system } = begin({ a: true, c: true });
  await system.advance(1_000);
  expect(await call.outcome).toBe(false);
  expect(nodes.filter(({ isSuspect }) => isSuspect).map(({ name }) => name)).toEqual(["b", "d", "e"]);
});

it("a suspect node is not waited for when the others are a majority, and an answer clears it", async () => {
  const nodes = makeNodes();
  for (const node of nodes.slice(0, 2)) node.isSuspect = true;
  const { call } = begin({ a: true, c: true, d: true, e: false }, nodes);
  expect(await call.outcome).toBe(true);
  expect(nodes.map(({ isSuspect }) => isSuspect)).toEqual([false, true, false, false, false]);
});

it("a call that fails is not a sign of life of its node", async () => {
  const nodes = makeNodes();
  const [a] = nodes as [Named];
  a.isSuspect = true;
  const { call } = begin({ a: new Error("given up"), b: true, c: true, d: true, e: true }, nodes);
  expect(await call.outcome).toBe(true);
  expect(a.isSuspect).toBe(true);
});

// Which word of the nodes counts, where they do not say the same.

import { expect, it } from "vitest";
import type { Fleet } from "./fleet.ts";
import type { Vote } from "./quorum.ts";
import { tally } from "./tally.ts";

const WORDS = ["revoked", "other-fence", "free"] as const;
const io = { timeoutMs: 1_000, signal: new AbortController().signal, sleep: () => Promise.resolve() };

/** Five nodes that have said these words. */
function nodesThatSaid(...said: string[]): Fleet {
  const votes = said.map((answer): Vote<string> => ({ state: "answered", answer }));
  const ask = (ballot: { decide(now: readonly Vote<string>[]): string | null }): Promise<unknown> =>
    Promise.resolve({ decision: ballot.decide(votes), votes, whole: true });
  return { majority: 3, ask } as unknown as Fleet;
}

const question = { doing: "revocation", key: "k", words: WORDS, ask: () => Promise.resolve("") };

it("a holder that released as soon as the first node had revoked it was revoked (P6)", async () => {
  const nodes = nodesThatSaid("revoked", "free", "free", "free", "free");
  expect(await tally(nodes, { ...question, oneIsEnough: true }, io)).toBe("revoked");
  expect(await tally(nodes, question, io)).toBe("free");
});

it("where nobody had anything to revoke the majority counts", async () => {
  const nodes = nodesThatSaid("other-fence", "free", "free", "free", "free");
  expect(await tally(nodes, { ...question, oneIsEnough: true }, io)).toBe("free");
});

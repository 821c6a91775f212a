// Which word of the nodes counts, where they do not say the same.

import { expect, it } from "vitest";
import { majorityAnswer } from "./majority-answer.ts";
import type { Vote } from "./quorum-call.ts";

const WORDS = ["revoked", "other-fence", "free"] as const;

function votesOf(...said: string[]): Vote<string>[] {
  return said.map((answer) => ({ state: "answered", answer }));
}

it("a holder that released as soon as the first node had revoked it was revoked (P6)", () => {
  const votes = votesOf("revoked", "free", "free", "free", "free");
  expect(majorityAnswer(votes, WORDS, 3, true)).toBe("revoked");
  expect(majorityAnswer(votes, WORDS, 3)).toBe("free");
});

it("where nobody had anything to revoke the majority counts", () => {
  const votes = votesOf("other-fence", "free", "free", "free", "free");
  expect(majorityAnswer(votes, WORDS, 3, true)).toBe("free");
});

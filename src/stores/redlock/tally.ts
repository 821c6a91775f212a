// A word from all nodes, where nothing but the word counts: decided when a majority says the same, or when a majority has spoken and
// nobody else will; then the word that most of them said.

import type { Io } from "../../core/store.ts";
import { quorumError } from "./errors.ts";
import type { Fleet } from "./fleet.ts";
import type { Node } from "./node.ts";
import type { Vote } from "./quorum.ts";

/** `doing` completes "no majority for the". */
export async function tally(
  fleet: Fleet,
  doing: string,
  key: string,
  io: Io,
  ask: (node: Node) => Promise<string>,
): Promise<string> {
  const { majority } = fleet;
  const { decision, votes } = await fleet.ask<string, string>(
    { ask, decide: (now) => wordOf(now, majority) },
    io,
  );
  if (decision !== null) return decision;
  const reasons = fleet.reasons(votes, (word) => `answered ${word}`);
  throw quorumError(doing, key, reasons, majority);
}

function wordOf(votes: readonly Vote<string>[], majority: number): string | null {
  const counts = new Map<string, number>();
  let [spoke, open] = [0, false];
  for (const vote of votes) {
    if (vote.state === "pending") open = true;
    if (vote.state !== "answered") continue;
    spoke += 1;
    const found = (counts.get(vote.answer) ?? 0) + 1;
    if (found >= majority) return vote.answer;
    counts.set(vote.answer, found);
  }
  if (open || spoke < majority) return null;
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}

// A word from all nodes, where nothing but the word counts: decided when a majority says the same, or when a
// majority has spoken and nobody else will. Then the strongest word counts: what a few nodes did was done,
// and that others had nothing to do it to does not deny it, for they may be those that were never asked to
// vote for the lease, or the ones that have forgotten it.

import type { Io } from "../../core/store.ts";
import { quorumError } from "./errors.ts";
import { count, type Fleet, pending } from "./fleet.ts";
import type { Node } from "./node.ts";
import type { Vote } from "./quorum.ts";

export interface Question<W extends string> {
  /** Completes "no majority for the". */
  readonly doing: string;
  readonly key: string;
  /** What a node may say, the strongest first. */
  readonly words: readonly W[];
  readonly ask: (node: Node) => Promise<string>;
  /**
   * One node that says the strongest word outweighs a majority that says another. A revoked holder hears of
   * it from the first node and releases; the nodes that hear of the release before the revocation then have
   * nothing left to revoke.
   */
  readonly oneIsEnough?: boolean;
}

export async function tally<W extends string>(
  fleet: Fleet,
  { doing, key, words, ask, oneIsEnough = false }: Question<W>,
  io: Io,
): Promise<W> {
  const { majority } = fleet;
  const { decision, votes } = await fleet.ask<string, W>(
    { ask, decide: (now) => wordOf(now, words, { majority, oneIsEnough }) },
    io,
  );
  if (decision !== null) return decision;
  const reasons = fleet.reasons(votes, (word) => `answered ${word}`);
  throw quorumError(doing, key, reasons, majority);
}

function wordOf<W extends string>(
  votes: readonly Vote<string>[],
  words: readonly W[],
  { majority, oneIsEnough }: { readonly majority: number; readonly oneIsEnough: boolean },
): W | null {
  const said = words.map((word) => count(votes, (answer) => answer === word));
  const most = said.findIndex((times) => times >= majority);
  if (most !== -1) return words[oneIsEnough && (said[0] as number) > 0 ? 0 : most] as W;
  const spoke = said.reduce((sum, times) => sum + times, 0);
  if (pending(votes) > 0 || spoke < majority) return null;
  return words[said.findIndex((times) => times > 0)] as W;
}

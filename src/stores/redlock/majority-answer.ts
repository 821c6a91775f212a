// One word from all nodes. It is decided when a majority says the same, or when a majority has answered and
// nobody else will. Then the strongest word counts: what a few nodes did was done, and that others had
// nothing to do it to does not deny it. They may be nodes that were never asked to vote for the lease, or
// that forgot it.

import { count, countPending, type Vote } from "./quorum-call.ts";

/**
 * `words`: what a node may say, the strongest first. null while it is undecided. `oneIsEnough`: one node that
 * says the strongest word outweighs a majority that says another. A revoked holder hears of it from the first
 * node and releases. The nodes that hear of the release before the revocation then have nothing left to
 * revoke.
 */
export function majorityAnswer<W extends string>(
  votes: readonly Vote<string>[],
  words: readonly W[],
  majority: number,
  oneIsEnough = false,
): W | null {
  let [voted, strongest]: [number, W | null] = [0, null];
  for (const word of words) {
    const times = count(votes, (answer) => answer === word);
    if (times > 0) strongest ??= word;
    if (times >= majority) return oneIsEnough && strongest === words[0] ? strongest : word;
    voted += times;
  }
  return countPending(votes) > 0 || voted < majority ? null : strongest;
}

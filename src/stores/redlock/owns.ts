// Whether a request holds a key: yes when a majority says so, no when that has become impossible. At the
// moment at which a lease ends the nodes may disagree, which is no answer: they are asked again.

import type { Io } from "../../core/store.ts";
import { type Reply, textOf } from "../redis/client/port.ts";
import type { Node } from "./node.ts";
import type { NodeSet } from "./node-set.ts";
import { count, type Vote } from "./quorum-call.ts";
import { type NotVoting, readNotVoting } from "./script-replies.ts";

const TRIES = 4;
const AGAIN_MS = 20;

export async function queryOwnership(
  nodeSet: NodeSet,
  key: string,
  io: Io,
  ask: (node: Node) => Promise<Reply>,
): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    const { decision, votes } = await nodeSet.ask<boolean | NotVoting, boolean>(
      {
        ask: async (node) => {
          const reply = await ask(node);
          return readNotVoting(reply) ?? Number(textOf(reply)) === 1;
        },
        decide: (now) => yesOrNo(now, nodeSet.majority),
      },
      io,
    );
    if (decision !== null) return decision;
    if (tries === TRIES)
      throw nodeSet.error("ownership", key, votes, (own) => (own === true ? "says yes" : "does not say yes"));
    await io.sleep(AGAIN_MS);
  }
}

/** null while it is open or cannot be known. */
function yesOrNo(votes: readonly Vote<unknown>[], majority: number): boolean | null {
  if (count(votes, (answer) => answer === true) >= majority) return true;
  return count(votes, (answer) => answer === false) > votes.length - majority ? false : null;
}

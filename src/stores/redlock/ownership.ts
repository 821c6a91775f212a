// Whether a request holds a key: yes when a majority says so, no when that has become impossible. At the moment at which a lease ends
// nodes may differ by a hair, which is no answer; they are asked again.

import type { Io } from "../../core/store.ts";
import { type Reply, textOf } from "../redis/port.ts";
import { quorumError } from "./errors.ts";
import { type Fleet, yesOrNo } from "./fleet.ts";
import type { Node } from "./node.ts";
import { type Out, readOut } from "./words.ts";

const TRIES = 4;
const AGAIN_MS = 20;

export async function owned(
  fleet: Fleet,
  key: string,
  io: Io,
  ask: (node: Node) => Promise<Reply>,
): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    const { decision, votes } = await fleet.ask<boolean | Out, boolean>(
      {
        ask: async (node) => {
          const reply = await ask(node);
          return readOut(reply) ?? Number(textOf(reply)) === 1;
        },
        decide: (now) => yesOrNo(now, fleet.majority),
      },
      io,
    );
    if (decision !== null) return decision;
    if (tries === TRIES) {
      const reasons = fleet.reasons(votes, (own) => (own === true ? "says yes" : "does not say yes"));
      throw quorumError("ownership", key, reasons, fleet.majority);
    }
    await io.sleep(AGAIN_MS);
  }
}

// Renews many leases in one call, with an answer for each: renewed when a majority has moved its end, lost
// when no majority can have it any more, unknown while neither is certain.

import type { Io, RenewAnswer, RenewItem } from "../../core/store.ts";
import { listOf, type Reply, textOf } from "../redis/client/port.ts";
import type { Cookie } from "./acquire.ts";
import type { Node } from "./node.ts";
import type { NodeSet } from "./node-set.ts";
import type { Vote } from "./quorum-call.ts";
import {
  describeNotVoting,
  describeRenewal,
  type NotVoting,
  readNotVoting,
  readRenewal,
  type RenewalState,
} from "./script-replies.ts";

/** So many leases are renewed in one step. More would keep a node from other work for too long. */
const RENEWED_AT_ONCE = 100;

type NodeRenewals = readonly RenewalState[] | NotVoting;
/** Sends the script to a node. Resolves to its reply, or to why the node may not vote. */
export type SendRenewal = (
  node: Node,
  keys: readonly string[],
  args: readonly string[],
) => Promise<Reply | NotVoting>;

export async function renewAll(
  nodeSet: NodeSet,
  items: readonly RenewItem<Cookie>[],
  io: Io,
  send: SendRenewal,
): Promise<readonly RenewAnswer[]> {
  const batches: Promise<readonly RenewAnswer[]>[] = [];
  for (let at = 0; at < items.length; at += RENEWED_AT_ONCE)
    batches.push(renewBatch(nodeSet, items.slice(at, at + RENEWED_AT_ONCE), io, send));
  return (await Promise.all(batches)).flat();
}

async function renewBatch(
  nodeSet: NodeSet,
  items: readonly RenewItem<Cookie>[],
  io: Io,
  send: SendRenewal,
): Promise<readonly RenewAnswer[]> {
  const keys = items.map(({ request }) => request.keys[0] as string);
  const args = items.flatMap(({ request, cookie, ttlMs, label, lastFences }) => {
    const numbers = [cookie.fence, Math.ceil(ttlMs + request.graceMs) + 1].map(String);
    return [request.id, ...numbers, label, String(lastFences[0] ?? "")];
  });
  const { votes } = await nodeSet.ask<NodeRenewals, true>(
    {
      ask: async (node) => {
        const reply = await send(node, keys, args);
        if (isNotVoting(reply)) return reply;
        const states = listOf(reply).slice(0, keys.length);
        return readNotVoting(reply) ?? states.map((state) => readRenewal(textOf(state)));
      },
      decide: (now) => (items.every((item, at) => answerOf(nodeSet, now, item, at) !== null) ? true : null),
    },
    io,
  );
  return items.map((item, at) => answerOf(nodeSet, votes, item, at) ?? unknown(nodeSet, votes, keys[at], at));
}

function answerOf(
  { majority }: NodeSet,
  votes: readonly Vote<NodeRenewals>[],
  { ttlMs }: RenewItem<Cookie>,
  at: number,
): RenewAnswer | null {
  const states = votes.flatMap((vote) =>
    vote.state === "answered" && !("kind" in vote.answer) ? [vote.answer[at] as RenewalState] : [],
  );
  if (states.filter(({ state }) => state === "renewed").length >= majority)
    return { state: "renewed", validMs: ttlMs };
  const against = states.filter(({ state }) => state !== "renewed" && state !== "failed");
  if (against.length <= votes.length - majority) return null;
  const revoked = against.find(({ state }) => state === "revoked");
  if (revoked?.state === "revoked") return { state: "lost", reason: "revoked", detail: revoked.reason };
  return { state: "lost", reason: "gone" };
}

function unknown(
  nodeSet: NodeSet,
  votes: readonly Vote<NodeRenewals>[],
  key: string | undefined,
  at: number,
): RenewAnswer {
  const describe = (states: NodeRenewals): string =>
    "kind" in states ? describeNotVoting(states) : describeRenewal(states[at] as RenewalState);
  return { state: "unknown", cause: nodeSet.error("renewal", key, votes, describe) };
}

function isNotVoting(reply: Reply | NotVoting): reply is NotVoting {
  return typeof reply === "object" && reply !== null && "kind" in reply;
}

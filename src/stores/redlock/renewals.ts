// Many leases renewed in one ballot, and an answer for each: renewed when a majority has moved its end, lost when no majority can
// have it any more, unknown while neither is certain.

import type { Io, RenewAnswer, RenewItem } from "../../core/store.ts";
import { listOf, type Reply, textOf } from "../redis/port.ts";
import type { Cookie } from "./attempt.ts";
import { quorumError } from "./errors.ts";
import type { Fleet } from "./fleet.ts";
import type { Node } from "./node.ts";
import type { Vote } from "./quorum.ts";
import { type Out, outWords, readOut, readRenewal, type RenewWord } from "./words.ts";

/** So many leases are renewed in one step; more would keep a node from other work for too long. */
const RENEWED_AT_ONCE = 100;

type Words = readonly RenewWord[] | Out;
type Send = (node: Node, keys: readonly string[], args: readonly string[]) => Promise<Reply | Out>;

export async function renewed(
  fleet: Fleet,
  items: readonly RenewItem<Cookie>[],
  io: Io,
  send: Send,
): Promise<readonly RenewAnswer[]> {
  const batches: Promise<readonly RenewAnswer[]>[] = [];
  for (let at = 0; at < items.length; at += RENEWED_AT_ONCE) {
    batches.push(batch(fleet, items.slice(at, at + RENEWED_AT_ONCE), io, send));
  }
  return (await Promise.all(batches)).flat();
}

async function batch(
  fleet: Fleet,
  items: readonly RenewItem<Cookie>[],
  io: Io,
  send: Send,
): Promise<readonly RenewAnswer[]> {
  const keys = items.map(({ request }) => request.keys[0] as string);
  const args = items.flatMap(({ request, cookie, ttlMs, label, lastFences }) => {
    const numbers = [cookie.fence, ttlMs, request.graceMs].map(String);
    return [request.id, ...numbers, label, String(lastFences[0] ?? "")];
  });
  const { votes } = await fleet.ask<Words, true>(
    {
      ask: async (node) => {
        const reply = await send(node, keys, args);
        if (isOut(reply)) return reply;
        return (
          readOut(reply) ??
          listOf(reply)
            .slice(0, keys.length)
            .map((word) => readRenewal(textOf(word)))
        );
      },
      decide: (now) => (items.every((item, at) => answerOf(fleet, now, item, at) !== null) ? true : null),
    },
    io,
  );
  return items.map((item, at) => answerOf(fleet, votes, item, at) ?? unknown(fleet, votes, keys[at], at));
}

function answerOf(
  { majority }: Fleet,
  votes: readonly Vote<Words>[],
  { ttlMs }: RenewItem<Cookie>,
  at: number,
): RenewAnswer | null {
  const words = votes.flatMap((vote) =>
    vote.state === "answered" && !("kind" in vote.answer) ? [vote.answer[at] as RenewWord] : [],
  );
  if (words.filter(({ state }) => state === "renewed").length >= majority)
    return { state: "renewed", validMs: ttlMs };
  const against = words.filter(({ state }) => state !== "renewed");
  if (against.length <= votes.length - majority) return null;
  const revoked = against.find((word) => word.state === "revoked");
  if (revoked?.state === "revoked") return { state: "lost", reason: "revoked", detail: revoked.reason };
  return { state: "lost", reason: "gone" };
}

function unknown(
  fleet: Fleet,
  votes: readonly Vote<Words>[],
  key: string | undefined,
  at: number,
): RenewAnswer {
  const nodes = fleet.reasons(votes, (words) =>
    "kind" in words ? outWords(words) : `says ${(words[at] as RenewWord).state}`,
  );
  return { state: "unknown", cause: quorumError("renewal", key, nodes, fleet.majority) };
}

function isOut(reply: Reply | Out): reply is Out {
  return typeof reply === "object" && reply !== null && "kind" in reply;
}

// What the scripts answer and push, read into the words of the contract. Numbers travel as text, because Redis cuts fractions
// off and a fence is larger than what some clients give as a number.

import type {
  AttemptAnswer,
  Grant,
  HolderInfo,
  LockInfo,
  Mode,
  Request,
  WaiterInfo,
} from "../../core/store.ts";
import { heartbeatFor } from "../shared/rows.ts";
import { CLAIM_MS } from "./guarantees.ts";
import { listOf, type Reply, textOf } from "./port.ts";

const HOLDER_WORDS = 9;
const WAITER_WORDS = 4;
const REVOKED = "revoked:";

export function readAttempt(reply: Reply, request: Request): AttemptAnswer<null> {
  const [kind, ...words] = listOf(reply).map(textOf);
  switch (kind) {
    case "granted":
      return {
        granted: grantOf(words.slice(1), words[0], request.ttlMs, request.seq),
      };
    case "busy":
      return {
        busy: {
          holders: readHolders(words),
          againMs: heartbeatFor(CLAIM_MS, request.ttlMs),
        },
      };
    case "ended":
      return { ended: true };
    default:
      throw new Error(`the script answered ${JSON.stringify(kind)}`);
  }
}

export function readLook(reply: Reply, key: string): LockInfo | null {
  const parts = listOf(reply);
  if (parts.length === 0) return null;
  const waiters = rowsOf(listOf(parts[2]).map(textOf), WAITER_WORDS).map(
    ([label, mode, permits, waited]): WaiterInfo => ({
      label: label as string,
      mode: mode as Mode,
      permits: Number(permits),
      waitedMs: Number(waited),
    }),
  );
  return {
    key,
    limit: Number(textOf(parts[0])),
    holders: readHolders(listOf(parts[1]).map(textOf)),
    waiters,
  };
}

export type Push =
  | { readonly kind: "grant"; readonly id: string; readonly grant: Grant<null> }
  | { readonly kind: "look"; readonly id: string }
  | { readonly kind: "revoked"; readonly id: string; readonly reason: string };

/** null when the message is none of ours: anybody may publish anything. */
export function readPush(message: string): Push | null {
  const [kind, id, ...words] = message.split(" ");
  if (id === undefined) return null;
  if (kind === "look") return { kind, id };
  if (kind === "revoked") return { kind, id, reason: words.join(" ") };
  if (kind !== "grant" || words.length < 4 || !words.every((word) => /^\d+(\.\d+)?$/.test(word))) return null;
  const [anchor, room, validMs, ...fences] = words;
  return {
    kind,
    id,
    grant: grantOf(fences, room, Number(validMs), Number(anchor)),
  };
}

/** A plain lock that was free: the rest of the grant follows from the request. */
export function loneGrant(fence: string, { ttlMs, seq, fenceRoom }: Request): Grant<null> {
  if (!/^[1-9]\d{15}$/.test(fence)) throw new Error(`the script answered ${JSON.stringify(fence)}`);
  return {
    fences: [BigInt(fence)],
    fenceRoom,
    validMs: ttlMs,
    anchor: seq,
    cookie: null,
  };
}

function grantOf(
  fences: readonly string[],
  room: string | undefined,
  validMs: number,
  anchor: number,
): Grant<null> {
  return {
    fences: fences.map(BigInt),
    fenceRoom: Number(room),
    validMs,
    anchor,
    cookie: null,
  };
}

function readHolders(words: readonly string[]): HolderInfo[] {
  return rowsOf(words, HOLDER_WORDS).map((row) => {
    const [label, mode, permits, fence, remaining, held, waitingFor, revoked, kept] = row as string[];
    return {
      label: label as string,
      mode: mode as Mode,
      permits: Number(permits),
      fence: BigInt(fence as string),
      remainingMs: Number(remaining),
      heldMs: Number(held),
      ...(waitingFor === "" ? {} : { waitingFor: waitingFor as string }),
      ...(revoked === "" ? {} : { revoked: (revoked as string).slice(REVOKED.length) }),
      ...(kept === "" ? {} : { kept: true }),
    };
  });
}

function rowsOf(words: readonly string[], width: number): (readonly string[])[] {
  const rows: (readonly string[])[] = [];
  for (let at = 0; at + width <= words.length; at += width) rows.push(words.slice(at, at + width));
  return rows;
}

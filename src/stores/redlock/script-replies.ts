// Parsers of what the scripts reply. Numbers travel as text, because Redis cuts fractions off and a fence is
// larger than what some clients give as a number.

import type { HolderInfo } from "../../core/store.ts";
import { listOf, type Reply, textOf } from "../redis/client/port.ts";
import { RESTARTED, reasonOf } from "./errors.ts";

const FAILED = "failed:";
const REVOKED = "revoked:";

/**
 * Why a node may not vote. `strange`: its marker is not the running server's; `waiting`: it is in quarantine;
 * `ready`: it may be readmitted; `jumped`: its clock does not fit.
 */
export interface NotVoting {
  readonly kind: "not-voting";
  readonly why: "strange" | "waiting" | "ready" | "jumped";
  /** What the quarantine is for. */
  readonly cause: "restart" | "clock";
  /** For how long clients have to watch it yet. */
  readonly leftMs: number;
}

export const JUMPED: NotVoting = { kind: "not-voting", why: "jumped", cause: "clock", leftMs: 0 };

/** A holder as one node knows it. `fence` names the grant, `info.fence` is the number in use. */
export interface Held {
  readonly kind: "held";
  readonly fence: number;
  readonly info: HolderInfo;
  /** For a refused proposal: ms until its next attempt, and its position in the queue. 0 without a place. */
  readonly againMs: number;
  readonly position: number;
}

export type NodeAnswer =
  | { readonly kind: "granted" }
  | { readonly kind: "low" | "far"; readonly c: number; readonly wallUs: number }
  | {
      readonly kind: "reserved";
      readonly label: string;
      readonly againMs: number;
      readonly position: number;
    }
  | { readonly kind: "ended" }
  | Held
  | NotVoting;

const GRANTED: NodeAnswer = { kind: "granted" };

export function readAnswer(reply: Reply): NodeAnswer {
  if (!Array.isArray(reply)) {
    if (Number(textOf(reply)) === 1) return GRANTED;
    throw new Error(`the script answered ${JSON.stringify(textOf(reply))}`);
  }
  const words = listOf(reply).map(textOf);
  const [kind, first = "", second = "", third = ""] = words;
  if (kind === "held") return readHeld(words) as Held;
  if (kind === "low" || kind === "far") return { kind, c: Number(first), wallUs: Number(second) };
  if (kind === "reserved") return { kind, label: third, againMs: Number(first), position: Number(second) };
  if (kind === "ended") return { kind };
  const absent = readNotVoting(reply);
  if (absent !== null) return absent;
  throw new Error(`the script answered ${JSON.stringify(kind)}`);
}

/** null when the node votes. */
export function readNotVoting(reply: Reply): NotVoting | null {
  if (!Array.isArray(reply) || textOf(reply[0] as Reply) !== "out") return null;
  const [, why, cause, leftMs] = listOf(reply).map(textOf);
  return notVoting(why, cause, leftMs);
}

export function notVoting(why?: string, cause?: string, leftMs?: string): NotVoting {
  return {
    kind: "not-voting",
    why: why as NotVoting["why"],
    cause: cause === "c" ? "clock" : "restart",
    leftMs: Number(leftMs),
  };
}

function readHeld(words: readonly string[]): Held | null {
  if (words[0] !== "held") return null;
  const [, againMs, position, label, fence, used, remaining, held, waitingFor, revoked, kept] =
    words as string[];
  const info: HolderInfo = {
    label: label as string,
    mode: "exclusive",
    permits: 1,
    fence: BigInt(used as string),
    remainingMs: Number(remaining),
    heldMs: Number(held),
    ...(waitingFor === "" ? {} : { waitingFor: waitingFor as string }),
    ...(revoked === "" ? {} : { revoked: (revoked as string).slice(REVOKED.length) }),
    ...(kept === "" ? {} : { kept: true }),
  };
  return { kind: "held", fence: Number(fence), info, againMs: Number(againMs), position: Number(position) };
}

export type RenewalState =
  | { readonly state: "renewed" | "gone" }
  /** `failed`: its record cannot be read or written. */
  | { readonly state: "revoked" | "failed"; readonly reason: string };

export function readRenewal(word: string): RenewalState {
  if (word.startsWith(REVOKED)) return { state: "revoked", reason: word.slice(REVOKED.length) };
  if (word.startsWith(FAILED)) return { state: "failed", reason: reasonOf(word.slice(FAILED.length)) };
  return { state: word === "renewed" ? "renewed" : "gone" };
}

export function describeRenewal(renewal: RenewalState): string {
  return renewal.state === "failed" ? renewal.reason : `says ${renewal.state}`;
}

/** What one node knows of one key. */
export interface View {
  /** Why its record cannot be read; null if it can be. */
  readonly failure: string | null;
  readonly holder: Held | null;
  readonly waiters: readonly { readonly label: string; readonly waitedMs: number }[];
}

export interface Inspection {
  readonly notVoting: NotVoting | null;
  readonly views: readonly View[];
  /** The node's time and its last quarantine. */
  readonly clock: string;
}

export function readInspection(reply: Reply): Inspection {
  const [out, ...rest] = listOf(reply);
  const clock = textOf(rest.at(-1));
  const views = rest.slice(0, -1).map((key): View => {
    if (!Array.isArray(key)) return { failure: reasonOf(textOf(key)), holder: null, waiters: [] };
    const [row, queue] = listOf(key).map((part) => listOf(part).map(textOf));
    const words = queue ?? [];
    const waiters = words.flatMap((label, at) =>
      at % 2 === 0 ? [{ label, waitedMs: Number(words[at + 1]) }] : [],
    );
    return { failure: null, holder: readHeld(row ?? []), waiters };
  });
  return { notVoting: readNotVoting(out), views, clock };
}

/** For errors, `inspect` and events. */
export function describeNotVoting({ why, cause, leftMs }: NotVoting): string {
  const since = cause === "clock" ? "has a clock that jumped" : RESTARTED;
  if (why === "waiting") return `${since}, votes again in ${Math.ceil(leftMs / 1_000)} s`;
  if (why === "ready") return `${since}, votes again once a majority of the others has told it their fences`;
  if (why === "jumped") return `${since}, and does not vote`;
  return "has no marker of this server: it was restarted or emptied, and does not vote";
}

export function describeAnswer(answer: NodeAnswer): string {
  switch (answer.kind) {
    case "granted":
      return "granted it";
    case "low":
      return "has seen a larger fence";
    case "far":
      return "has a clock that is more than an hour away from the others'";
    case "reserved":
      return `reserves it for ${answer.label}, who is next`;
    case "ended":
      return "says that this request has ended";
    case "not-voting":
      return describeNotVoting(answer);
    default:
      return `is busy: held by ${answer.info.label} for ${Math.round(answer.info.heldMs)} ms`;
  }
}

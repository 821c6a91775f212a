// What the scripts answer, read into words. Numbers travel as text, because Redis cuts fractions off and a fence is larger than
// what some clients give as a number.

import type { HolderInfo } from "../../core/store.ts";
import { listOf, type Reply, textOf } from "../redis/port.ts";

const REVOKED = "revoked:";

/**
 * Why a node may not vote. `strange`: its marker is not the running server's; `waiting`: it is in quarantine;
 * `ready`: it may be taken in again; `jumped`: its clock does not fit.
 */
export interface Out {
  readonly kind: "out";
  readonly why: "strange" | "waiting" | "ready" | "jumped";
  /** What the quarantine is for. */
  readonly cause: "restart" | "clock";
  /** For how long clients have to watch it yet. */
  readonly leftMs: number;
}

export const JUMPED: Out = { kind: "out", why: "jumped", cause: "clock", leftMs: 0 };

/** A holder as one node knows it. `fence` names the grant, `info.fence` is the number in use. */
export interface Held {
  readonly kind: "held";
  readonly fence: number;
  readonly info: HolderInfo;
}

export type NodeAnswer =
  | { readonly kind: "granted" }
  | { readonly kind: "low" | "far"; readonly c: number; readonly wallUs: number }
  | { readonly kind: "promised"; readonly label: string }
  | { readonly kind: "ended" }
  | Held
  | Out;

const GRANTED: NodeAnswer = { kind: "granted" };

export function readAttempt(reply: Reply): NodeAnswer {
  if (!Array.isArray(reply)) {
    if (Number(textOf(reply)) === 1) return GRANTED;
    throw new Error(`the script answered ${JSON.stringify(textOf(reply))}`);
  }
  const words = listOf(reply).map(textOf);
  const [kind, first = "", second = ""] = words;
  if (kind === "held") return readHeld(words) as Held;
  if (kind === "low" || kind === "far") return { kind, c: Number(first), wallUs: Number(second) };
  if (kind === "promised") return { kind, label: first };
  if (kind === "ended") return { kind };
  const out = readOut(reply);
  if (out !== null) return out;
  throw new Error(`the script answered ${JSON.stringify(kind)}`);
}

/** null when the node votes. */
export function readOut(reply: Reply): Out | null {
  if (!Array.isArray(reply) || textOf(reply[0] as Reply) !== "out") return null;
  const [, why, cause, leftMs] = listOf(reply).map(textOf);
  return outOf(why, cause, leftMs);
}

export function outOf(why?: string, cause?: string, leftMs?: string): Out {
  return {
    kind: "out",
    why: why as Out["why"],
    cause: cause === "c" ? "clock" : "restart",
    leftMs: Number(leftMs),
  };
}

function readHeld(words: readonly string[]): Held | null {
  if (words[0] !== "held") return null;
  const [, label, fence, used, remaining, held, waitingFor, revoked, kept] = words as string[];
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
  return { kind: "held", fence: Number(fence), info };
}

export type RenewWord =
  | { readonly state: "renewed" | "gone" }
  | { readonly state: "revoked"; readonly reason: string };

export function readRenewal(word: string): RenewWord {
  if (word.startsWith(REVOKED)) return { state: "revoked", reason: word.slice(REVOKED.length) };
  return { state: word === "renewed" ? "renewed" : "gone" };
}

/** What one node knows of one key. */
export interface View {
  readonly holder: Held | null;
  readonly waiters: readonly { readonly label: string; readonly waitedMs: number }[];
}

export interface Look {
  readonly out: Out | null;
  readonly views: readonly View[];
  /** The node's time and its last quarantine. */
  readonly clock: string;
}

export function readLook(reply: Reply): Look {
  const [out, ...rest] = listOf(reply);
  const clock = textOf(rest.at(-1));
  const views = rest.slice(0, -1).map((key): View => {
    const [row, line] = listOf(key).map((part) => listOf(part).map(textOf));
    const words = line ?? [];
    const waiters = words.flatMap((label, at) =>
      at % 2 === 0 ? [{ label, waitedMs: Number(words[at + 1]) }] : [],
    );
    return { holder: readHeld(row ?? []), waiters };
  });
  return { out: readOut(out), views, clock };
}

/** For errors, `inspect` and events. */
export function outWords({ why, cause, leftMs }: Out): string {
  const since = cause === "clock" ? "has a clock that jumped" : "was restarted or emptied";
  if (why === "waiting") return `${since}, votes again in ${Math.ceil(leftMs / 1_000)} s`;
  if (why === "ready") return `${since}, votes again once a majority of the others has told it their fences`;
  if (why === "jumped") return `${since}, and does not vote`;
  return "has no marker of this server: it was restarted or emptied, and does not vote";
}

export function answerWords(answer: NodeAnswer): string {
  switch (answer.kind) {
    case "granted":
      return "granted it";
    case "low":
      return "has seen a larger fence";
    case "far":
      return "has a clock that is more than an hour away from the others'";
    case "promised":
      return `keeps it for ${answer.label}, who is next`;
    case "ended":
      return "says that this request has ended";
    case "out":
      return outWords(answer);
    default:
      return `is busy: held by ${answer.info.label} for ${Math.round(answer.info.heldMs)} ms`;
  }
}

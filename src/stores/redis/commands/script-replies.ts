// Parses the replies and messages of the scripts. Numbers travel as text, because Redis cuts fractions off
// and some clients cannot return a fence as a number. Rows have fixed columns, which scripts/record.lua
// describes.

import type { LockError } from "../../../core/errors.ts";
import type {
  AttemptAnswer,
  Grant,
  HolderInfo,
  LockInfo,
  Mode,
  Request,
  WaiterInfo,
} from "../../../core/store.ts";
import { DOING } from "./commands.ts";
import { redisError } from "../errors.ts";
import { listOf, type Reply, textOf } from "../client/port.ts";

const FAILED = "failed:";
const HOLDER_WORDS = 3;
const WAITER_WORDS = 3;
const LABEL_DIGITS = 4;

/** The error in the reply for one record of many, or null. */
export function failureIn(reply: Reply, name: keyof typeof DOING, key: string | undefined): LockError | null {
  if (Array.isArray(reply)) return null;
  const text = textOf(reply);
  return text.startsWith(FAILED) ? redisError(new Error(text.slice(FAILED.length)), DOING[name], key) : null;
}

/** null: the attempt arrived too late and changed nothing. */
export function readAttempt(reply: Reply, request: Request): AttemptAnswer<null> | null {
  const words = listOf(reply).map(textOf);
  switch (words[0]) {
    case "granted":
      return { granted: grantOf(words.slice(3), request, Number(words[2])) };
    case "busy": {
      const [, time, againMs, position, holderCount] = words.map(Number) as [
        number,
        number,
        number,
        number,
        number,
      ];
      const holders = holdersOf(words.slice(5), time);
      return { busy: { holders, againMs, position, holderCount } };
    }
    case "ended":
      return { ended: true };
    case "late":
      return null;
    default:
      throw new Error(`the script answered ${JSON.stringify(words[0])}`);
  }
}

/** The server's clock in ms, of an answer to an attempt. */
export function timeOf(reply: Reply): number {
  return Number(textOf(listOf(reply)[1])) / 1_000;
}

/** The answer of scripts/fast-path.lua. */
export interface BatchReply {
  readonly timeMs: number;
  /** Of what was granted. */
  readonly fence: string;
  /** One per request. */
  readonly letters: string;
  /** From the second on: what the rules said, one for each "+". */
  readonly decisions: readonly Reply[];
}

const BATCH_TIMES = /^\d{32}/;

export function readBatch(reply: Reply, count: number): BatchReply {
  const parts = Array.isArray(reply) ? (reply as readonly Reply[]) : [reply];
  const [first] = parts;
  const text = typeof first === "string" ? first : textOf(first);
  if (text.length !== 32 + count || !BATCH_TIMES.test(text))
    throw new Error(`the script answered ${JSON.stringify(text.slice(0, 60))}`);
  const timeMs = Number(text.slice(0, 16)) / 1_000;
  return { timeMs, fence: text.slice(16, 32), letters: text.slice(32), decisions: parts };
}

export function grantOf(
  fences: readonly string[],
  request: Request,
  reservedFences: number = request.reservedFences,
): Grant<null> {
  return { fences: fences.map(BigInt), reservedFences, validMs: request.ttlMs, cookie: null };
}

/** `timeUs`: the server's. */
export function readInspect(reply: Reply, key: string, timeUs: number): LockInfo | null {
  const parts = listOf(reply);
  if (parts.length === 0) return null;
  if (parts.length === 1) return oldHolder(key, Number(textOf(parts[0])), timeUs);
  const holders = holdersOf(listOf(parts[0]).map(textOf), timeUs);
  const waiters = rowsOf(listOf(parts[1]).map(textOf), WAITER_WORDS)
    .map(([, beat, details]) => waiterOf(beat as string, details as string, timeUs))
    .toSorted((a, b) => a.ticket - b.ticket);
  const limits = waiters.map(({ limit }) => limit);
  return {
    key,
    limit: Math.max(holders.length === 0 ? 1 : Number(textOf(parts[2])), ...limits),
    holders,
    waiters: waiters.map(({ info }) => info),
  };
}

/** Of a record of another version only its end is known. */
function oldHolder(key: string, endUs: number, timeUs: number): LockInfo {
  const holder: HolderInfo = {
    label: "a process with another version of holdfast",
    mode: "exclusive",
    permits: 1,
    fence: 0n,
    remainingMs: Math.max(0, endUs - timeUs) / 1_000,
    heldMs: 0,
  };
  return { key, limit: 1, holders: [holder], waiters: [] };
}

export type Push =
  | { readonly kind: "turn"; readonly id: string }
  | { readonly kind: "revoked"; readonly id: string; readonly reason: string };

/** null if the message is not ours: every client may publish to the channel. */
export function readPush(message: string): Push | null {
  const [kind, id, ...words] = message.split(" ");
  if (id === undefined) return null;
  if (kind === "turn") return { kind, id };
  return kind === "revoked" ? { kind, id, reason: words.join(" ") } : null;
}

function holdersOf(words: readonly string[], timeUs: number): HolderInfo[] {
  const rows = rowsOf(words, HOLDER_WORDS) as [string, string, string][];
  return rows
    .toSorted(([a], [b]) => Number(a.slice(3, 19)) - Number(b.slice(3, 19)))
    .map((row) => holderOf(row, timeUs));
}

function holderOf([row, note, reason]: readonly [string, string, string], timeUs: number): HolderInfo {
  const number = (from: number, to: number): number => Number(row.slice(from, to));
  const [state, ends, keep] = [row[0], number(67, 83), number(84, 100)];
  const isKept = state === "k" || ends <= timeUs;
  return {
    label: labelOf(row.slice(161)),
    mode: modeOf(row[109]),
    permits: number(101, 108),
    fence: BigInt(row.slice(33, 49)),
    remainingMs: Math.max(0, (isKept ? Math.max(ends, keep) : ends) - timeUs) / 1_000,
    heldMs: Math.max(0, timeUs - number(50, 66)) / 1_000,
    ...(note === "" || isKept ? {} : { waitingFor: note }),
    ...(state === "v" ? { revoked: reason } : {}),
    ...(isKept ? { kept: true } : {}),
  };
}

interface Waiter {
  readonly ticket: number;
  readonly limit: number;
  readonly info: WaiterInfo;
}

function waiterOf(beat: string, details: string, timeUs: number): Waiter {
  return {
    ticket: Number(beat.slice(0, 10)),
    limit: Number(details.slice(29, 36)),
    info: {
      label: labelOf(details.slice(54)),
      mode: modeOf(details[17]),
      permits: Number(details.slice(21, 28)),
      waitedMs: Math.max(0, timeUs - Number(beat.slice(47, 63))) / 1_000,
    },
  };
}

function modeOf(letter: string | undefined): Mode {
  return letter === "s" ? "shared" : "exclusive";
}

/** How a label and an actor end a row. */
export function labelText(label: string): string {
  return `${String(Buffer.byteLength(label)).padStart(LABEL_DIGITS, "0")} ${label}`;
}

function labelOf(rest: string): string {
  const bytes = Number(rest.slice(0, LABEL_DIGITS));
  return Buffer.from(rest.slice(LABEL_DIGITS + 1))
    .subarray(0, bytes)
    .toString();
}

function rowsOf(words: readonly string[], width: number): (readonly string[])[] {
  const rows: (readonly string[])[] = [];
  for (let at = 0; at + width <= words.length; at += width) rows.push(words.slice(at, at + width));
  return rows;
}

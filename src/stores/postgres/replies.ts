// Reads what the functions answer. Numbers travel as text, because a fence is larger than what some clients
// give as a number.

import type { AttemptAnswer, HolderInfo, LockInfo, Mode, Request, WaiterInfo } from "../../core/store.ts";

/** label, mode, permits, fence, ms left, ms held, what it waits for in hex, reason of a revocation, kept */
type HolderReply = [string, string, number, string, number, number, string | null, string | null, boolean];
/** label, mode, permits, ms waited */
type WaiterReply = [string, string, number, number];

/** `order`: where the fence of each key stands in the answer. */
export function readAttempt(
  answer: string,
  { ttlMs }: Request,
  order: readonly number[] | null,
): AttemptAnswer<null> {
  const words = answer.split(" ");
  if (words[0] === "g") {
    const fences = order === null ? [words[2]] : order.map((at) => words[2 + at]);
    const reservedFences = Number(words[1]);
    return {
      granted: {
        fences: fences.map((fence) => BigInt(fence as string)),
        reservedFences,
        validMs: ttlMs,
        cookie: null,
      },
    };
  }
  if (words[0] === "e") return { ended: true };
  const [againMs, position, holderCount] = words.slice(1, 4).map(Number) as [number, number, number];
  const holders = readHolders(words.slice(4).join(" "));
  return { busy: { againMs, position, holderCount, holders } };
}

export function readHolders(json: string): HolderInfo[] {
  return (JSON.parse(json) as HolderReply[]).map(holderOf);
}

export function readLock(key: string, json: string): LockInfo {
  const [limit, holders, waiters] = JSON.parse(json) as [number, HolderReply[], WaiterReply[]];
  return { key, limit, holders: holders.map(holderOf), waiters: waiters.map(waiterOf) };
}

function holderOf(reply: HolderReply): HolderInfo {
  const [label, mode, permits, fence, remainingMs, heldMs, waitingFor, revoked, isKept] = reply;
  return {
    label,
    mode: modeOf(mode),
    permits,
    fence: BigInt(fence),
    remainingMs: Math.max(0, remainingMs),
    heldMs: Math.max(0, heldMs),
    ...(waitingFor === null ? {} : { waitingFor: Buffer.from(waitingFor, "hex").toString() }),
    ...(revoked === null ? {} : { revoked }),
    ...(isKept ? { kept: true } : {}),
  };
}

function waiterOf([label, mode, permits, waitedMs]: WaiterReply): WaiterInfo {
  return { label, mode: modeOf(mode), permits, waitedMs: Math.max(0, waitedMs) };
}

function modeOf(letter: string): Mode {
  return letter === "s" ? "shared" : "exclusive";
}

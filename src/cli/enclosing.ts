// Finds a `run` inside the COMMAND of another `run` of the same key, which would wait for its own end. Each
// `run` adds its key to HOLDFAST_HELD in the environment of COMMAND. The variable also marks every process
// that COMMAND starts.

import { createHash } from "node:crypto";
import { DeadlockError, type Locks } from "../surface.ts";
import { formatName, redactUrl } from "./format.ts";

export const HELD_VARIABLE = "HOLDFAST_HELD";
/** Enough for the few keys that enclose one process. */
const DIGEST_LENGTH = 16;

export interface ScopedKey {
  readonly store: string;
  readonly namespace: string;
  readonly key: string;
}

/** `digest.fence.`: the digest identifies the key and its store without showing them. */
export function entryOf(scoped: ScopedKey, fence: bigint): string {
  return `${digest(scoped)}.${fence}.`;
}

/** The value of the variable for COMMAND. */
export function appendEntry(held: string | undefined, entry: string): string {
  return held === undefined || held === "" ? entry : `${held} ${entry}`;
}

/** The fences of enclosing runs of this key. They may have ended: a daemon keeps its environment. */
function enclosingFences(held: string | undefined, scoped: ScopedKey): readonly string[] {
  const prefix = `${digest(scoped)}.`;
  const entries = (held ?? "").split(" ").filter((entry) => entry.startsWith(prefix));
  return entries.map((entry) => entry.slice(prefix.length, -1));
}

/** @throws DeadlockError if an enclosing run holds the key now. */
export async function rejectNested(locks: Locks, scoped: ScopedKey, held: string | undefined): Promise<void> {
  const fences = enclosingFences(held, scoped);
  if (fences.length === 0) return;
  // If the store fails now, the acquire that follows reports it.
  const info = await locks.inspect(scoped.key).catch(() => null);
  const holder = info?.holders.find(({ fence }) => fences.includes(String(fence)));
  if (holder === undefined) return;
  throw new DeadlockError(
    `this run is part of the COMMAND of another one (${formatName(holder.label)}) that holds the same key: ` +
      "it would wait for its own end",
    { key: scoped.key, cycle: [{ label: holder.label, holds: scoped.key, waitsFor: scoped.key }] },
  );
}

function digest({ store, namespace, key }: ScopedKey): string {
  const text = JSON.stringify([redactUrl(store), namespace, key]);
  return createHash("sha256").update(text).digest("hex").slice(0, DIGEST_LENGTH);
}

// Which keys the runs around this one hold. A `run` adds its key to HOLDFAST_HELD in the environment of
// COMMAND, so that a `run` of the same key inside COMMAND is known: it would wait for its own end. The
// variable also marks every process that COMMAND starts.

import { createHash } from "node:crypto";
import { DeadlockError, type Locks } from "../surface.ts";
import { name, place } from "./words.ts";

export const HELD_VARIABLE = "HOLDFAST_HELD";
/** Enough to tell the keys around one process apart. */
const DIGEST_LENGTH = 16;

export interface KeyPlace {
  readonly store: string;
  readonly namespace: string;
  readonly key: string;
}

/** `digest.fence.`: the digest tells the key of this store from others without naming it. */
export function heldEntry(where: KeyPlace, fence: bigint): string {
  return `${digest(where)}.${fence}.`;
}

/** The value of the variable for COMMAND. */
export function withEntry(held: string | undefined, entry: string): string {
  return held === undefined || held === "" ? entry : `${held} ${entry}`;
}

/**
 * The fences of runs around this one for the key. Such a run may have ended: a daemon keeps its
 * environment.
 */
function enclosingFences(held: string | undefined, where: KeyPlace): readonly string[] {
  const prefix = `${digest(where)}.`;
  const entries = (held ?? "").split(" ").filter((entry) => entry.startsWith(prefix));
  return entries.map((entry) => entry.slice(prefix.length, -1));
}

/** @throws DeadlockError if a run around this one holds the key now. */
export async function refuseNested(locks: Locks, where: KeyPlace, held: string | undefined): Promise<void> {
  const fences = enclosingFences(held, where);
  if (fences.length === 0) return;
  // A store that cannot be asked now is the business of the acquire that follows.
  const info = await locks.inspect(where.key).catch(() => null);
  const holder = info?.holders.find(({ fence }) => fences.includes(String(fence)));
  if (holder === undefined) return;
  throw new DeadlockError(
    `this run is part of the COMMAND of another one (${name(holder.label)}) that holds the same key: ` +
      "it would wait for its own end",
    { key: where.key, cycle: [{ label: holder.label, holds: where.key, waitsFor: where.key }] },
  );
}

function digest({ store, namespace, key }: KeyPlace): string {
  const text = JSON.stringify([place(store), namespace, key]);
  return createHash("sha256").update(text).digest("hex").slice(0, DIGEST_LENGTH);
}

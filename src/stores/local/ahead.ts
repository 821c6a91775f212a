// Whom a waiter watches, and how soon it looks again when there is nobody left to watch.
// Only the one right before it in line, or the holders if it is first: a death must not wake the whole line (P14).

import type { KeyRecord } from "../shared/record.ts";
import { HEARTBEAT_MS } from "./guarantees.ts";
import type { Links } from "./links.ts";
import type { Peers } from "./peers.ts";

/** The kernel closes the sockets of a dying process a moment before it lets go of its locks. */
const DYING_MS = 50;
const DYING_POLL_MS = 1;
/** Later it is a process whose child has inherited its life, and the end of that can only be polled for. */
const ORPHAN_POLL_MS = 10;
const PATIENT_AFTER_MS = 5_000;
const PATIENT_POLL_MS = 100;

/** The processes that stand between this waiter and its keys, one step ahead; never this process itself. */
export function aheadOf(
  records: readonly KeyRecord[],
  id: string,
  self: string,
  peers: Peers,
): readonly string[] {
  const processes = new Set<string>();
  for (const record of records) {
    const at = record.line.findIndex((row) => row.id === id);
    if (at === -1) continue;
    const before = record.line.slice(0, at).findLast((row) => row.proc === self || peers.alive(row.proc));
    const rows = before === undefined ? record.holders : [before];
    for (const row of rows) if (row.proc !== "" && row.proc !== self) processes.add(row.proc);
  }
  return [...processes];
}

export function againMs(ahead: readonly string[], links: Links): number {
  let shortest = HEARTBEAT_MS;
  for (const process of ahead) {
    const silentMs = links.silentMs(process);
    if (silentMs === null) continue;
    shortest = Math.min(shortest, pollMs(silentMs));
  }
  return shortest;
}

function pollMs(silentMs: number): number {
  if (silentMs < DYING_MS) return DYING_POLL_MS;
  return silentMs < PATIENT_AFTER_MS ? ORPHAN_POLL_MS : PATIENT_POLL_MS;
}

// What somebody waits for, as the note in a held record says it. To a store the note is text and nothing else.
// The plain case, one exclusive key of the same store, is written as that key; everything else as JSON.
// A note is repeated with another number by a waiter that sees itself in a circle: so it is known to be alive and still waiting.

import type { LockInfo, Mode } from "../store.ts";

export interface Wait {
  readonly keys: readonly string[];
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  /**
   * Set when the keys are of another store than the one that the note is in: the fences of those who hold them. No name of a
   * store is the same for everybody who uses it; that a key is held with this very fence is.
   */
  readonly seen?: readonly bigint[];
}

export interface WaitNote {
  readonly waits: readonly Wait[];
  /** 0 until its writer has seen a circle. */
  readonly said: number;
}

/** Bytes of UTF-8. Longer notes are cut by whole keys: a circle through one that is left out is not seen. */
const MAX_NOTE_BYTES = 4_096;

type Row = [mode: "x" | "s", permits: number, limit: number, seen: string[] | 0, ...keys: string[]];

/** null when nothing of it can be said. */
export function writeNote({ waits, said }: WaitNote): string | null {
  const [only] = waits;
  if (said === 0 && waits.length === 1 && only !== undefined && isPlain(only)) return only.keys[0] as string;
  const rows: Row[] = [];
  let bytes = 20;
  for (const { keys, mode, permits, limit, seen } of waits) {
    const head: Row = [mode === "shared" ? "s" : "x", permits, limit, seen?.map(String) ?? 0];
    const row: Row = [...head];
    bytes += Buffer.byteLength(JSON.stringify(head)) + 1;
    for (const key of keys) {
      const more = Buffer.byteLength(JSON.stringify(key)) + 1;
      if (bytes + more > MAX_NOTE_BYTES) continue;
      bytes += more;
      row.push(key);
    }
    if (row.length > head.length) rows.push(row);
  }
  return rows.length === 0 ? null : JSON.stringify([said, ...rows]);
}

export function readNote(note: string): WaitNote {
  if (!note.startsWith("["))
    return { waits: [{ keys: [note], mode: "exclusive", permits: 1, limit: 1 }], said: 0 };
  try {
    const [said, ...rows] = JSON.parse(note) as [number, ...Row[]];
    const waits = rows.map(([mode, permits, limit, seen, ...keys]): Wait => ({
      keys,
      mode: mode === "s" ? "shared" : "exclusive",
      permits,
      limit,
      ...(seen === 0 ? {} : { seen: seen.map(BigInt) }),
    }));
    return { waits, said };
  } catch {
    // Not written by this version: it says nothing.
    return { waits: [], said: 0 };
  }
}

/** Notes are written for detectors; people see the first key that is waited for. */
export function forPeople(info: LockInfo): LockInfo {
  if (!info.holders.some((holder) => holder.waitingFor !== undefined)) return info;
  const holders = info.holders.map((holder) => {
    const note = holder.waitingFor;
    return note === undefined ? holder : { ...holder, waitingFor: readNote(note).waits[0]?.keys[0] ?? note };
  });
  return { ...info, holders };
}

function isPlain({ keys, mode, permits, limit, seen }: Wait): boolean {
  return (
    keys.length === 1 &&
    mode === "exclusive" &&
    permits === 1 &&
    limit === 1 &&
    seen === undefined &&
    !(keys[0] as string).startsWith("[")
  );
}

// The codec of notes: what the holder of a record waits for, as text. A store does not interpret the
// text. The plain case, one exclusive key of the same store, is written as that key, and everything else
// as JSON. A waiter that finds itself in a cycle rewrites its note with a new generation number. Other
// processes can therefore see that it is alive and still waiting.

import type { LockInfo, Mode } from "../store.ts";

export interface Wait {
  readonly keys: readonly string[];
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  /**
   * Set if the keys are in another store than the note: the fences of their holders. Processes may reach a
   * store by different URLs, so a store has no common name. A key and its fence identify the record instead.
   */
  readonly seen?: readonly bigint[];
}

export interface WaitNote {
  readonly waits: readonly Wait[];
  /** 0 until its writer has seen a cycle. */
  readonly generation: number;
}

/** In UTF-8. A longer note omits whole keys, and cycles through an omitted key are not found. */
const MAX_NOTE_BYTES = 4_096;

type Row = [mode: "x" | "s", permits: number, limit: number, seen: string[] | 0, ...keys: string[]];

/** The text of a note, or null if not a single key fits into it. */
export function writeNote({ waits, generation }: WaitNote): string | null {
  const [only] = waits;
  if (generation === 0 && waits.length === 1 && only !== undefined && isPlain(only))
    return only.keys[0] as string;
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
  return rows.length === 0 ? null : JSON.stringify([generation, ...rows]);
}

export function readNote(note: string): WaitNote {
  if (!note.startsWith("["))
    return { waits: [{ keys: [note], mode: "exclusive", permits: 1, limit: 1 }], generation: 0 };
  try {
    const [generation, ...rows] = JSON.parse(note) as [number, ...Row[]];
    const waits = rows.map(([mode, permits, limit, seen, ...keys]): Wait => ({
      keys,
      mode: mode === "s" ? "shared" : "exclusive",
      permits,
      limit,
      ...(seen === 0 ? {} : { seen: seen.map(BigInt) }),
    }));
    return { waits, generation };
  } catch {
    // Another version wrote the note. Ignore it.
    return { waits: [], generation: 0 };
  }
}

/** Replaces the note of each holder by the first key that it waits for, for `inspect` and `list`. */
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

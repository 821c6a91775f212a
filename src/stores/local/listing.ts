// The keys of one namespace that have a file, read without latches, so that a stopped process cannot hold up a listing.

import { closeSync } from "node:fs";
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import type { Io } from "../../core/store.ts";
import { fileError } from "./errors.ts";
import { parseRecord } from "./key-file.ts";
import { openExisting } from "./key-files.ts";
import type { Session } from "./session.ts";
import { GONE, SlotFile } from "./slot-file.ts";

/** So many files are read before other work of the process gets its turn. */
const AT_ONCE = 64;

export async function* keysIn(session: Session, io: Io): AsyncIterable<string> {
  let read = 0;
  for await (const entry of await opendir(session.place.keys)) {
    if (!entry.name.startsWith(session.files.prefix)) continue;
    read += 1;
    if (read % AT_ONCE === 0) await io.sleep(0);
    const key = keyOf(join(session.place.keys, entry.name), session);
    if (key !== null) yield key;
  }
}

/** The key of this file if anybody holds it or waits for it. */
function keyOf(path: string, session: Session): string | null {
  const fd = openExisting(path);
  if (fd === null) return null;
  try {
    const text = new SlotFile(path, fd, session.kernel).peek();
    if (text === GONE) return null;
    const { record } = parseRecord(text, path);
    return record.holders.length + record.line.length > 0 ? record.key : null;
  } catch (error) {
    throw fileError(error, "read", path);
  } finally {
    closeSync(fd);
  }
}

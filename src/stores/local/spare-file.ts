// A file that reserves disk space. When the disk is full, the store deletes it, so that leases can still be
// renewed and released. Each folder has one, and the next new log restores it.

import { closeSync, statSync, unlinkSync, writeSync } from "node:fs";
import { errno } from "./errors.ts";
import type { Folder } from "./folder.ts";

const SPARE_NAME = "spare";
/** Enough for about 150 releases of plain locks. */
const SPARE_BYTES = 1 << 16;

/** Best effort: without it a full disk blocks releases until their leases end. */
export function makeSpare(folder: Folder): void {
  const path = folder.join(SPARE_NAME);
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return;
  try {
    const fd = folder.create(path);
    try {
      writeSync(fd, incompressible(SPARE_BYTES));
    } finally {
      closeSync(fd);
    }
  } catch {
    // The disk is full, or another process made the file first.
  }
}

/** Some file systems store no blocks for zeros, and others compress repeated bytes. */
function incompressible(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let state = 1;
  for (let at = 0; at < length; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}

/**
 * Runs `write`. On a full disk it deletes the spare file, if `mayUseSpare` is true and the file exists,
 * and runs `write` once more.
 */
export function withSpare(folder: Folder, mayUseSpare: boolean, write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!mayUseSpare || (errno(error) !== "ENOSPC" && errno(error) !== "EDQUOT")) throw error;
    try {
      unlinkSync(folder.join(SPARE_NAME));
    } catch {
      throw error;
    }
    write();
  }
}

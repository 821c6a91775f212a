// A file of real blocks that is given up when the disk is full, so that what is held can still be renewed and
// released. One per folder; the next log that is made restores it.

import { closeSync, statSync, unlinkSync, writeSync } from "node:fs";
import { errno } from "./errors.ts";
import type { Folder } from "./folder.ts";

const SPARE_NAME = "spare";
/** Room for about 150 releases of plain locks. */
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

/** Some file systems store no blocks for zeros, and others compress what repeats. */
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
 * Runs `write`. On a full disk it gives up the spare file, if it may and there is one, and runs `write` once
 * more.
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

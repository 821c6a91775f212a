// Processes of holdfast 0.1.0 keep their locks in other files, so they and this version would not exclude
// each other. While such a process is alive, opening the store fails (P22). Each has a file of 32 hex digits
// that it keeps locked; the kernel lists the locked files in /proc/locks. Version 0.1.0 ran on Linux only.
// Its default directory is in /tmp, where any user can make one for root: it counts only if it is the
// user's own.

import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { UnsafeStoreError } from "../../core/errors.ts";
import { currentUser, type LockDirectory } from "./lock-directory.ts";

const PROCESS_FILE = /^[0-9a-f]{32}$/;

/** The default directory of version 0.1.0, and the user that must own it. */
export interface PreviousDirectory {
  readonly path: string;
  readonly owner: number | null;
}

export function previousDefault(): PreviousDirectory {
  const { uid } = currentUser();
  return { path: `/tmp/holdfast-${uid}`, owner: uid };
}

/** `previous` is null if the caller named the directory, because version 0.1.0 used the same one then. */
export function rejectPreviousVersion(
  directory: LockDirectory,
  previous: PreviousDirectory | null,
  bootId: string,
  locksFile = "/proc/locks",
): void {
  if (process.platform !== "linux" || (previous !== null && !isOwn(previous))) return;
  const before = previous?.path ?? directory.path;
  const live = liveProcessFiles(join(before, bootId), locksFile);
  if (live.length === 0) return;
  throw new UnsafeStoreError(
    `processes of holdfast 0.1.0 hold or wait for locks in ${before} (${live.map(describe).join(", ")}), ` +
      "and this version keeps its locks in other files",
    {
      setting: before,
      fix: "stop the processes of the old version, then start those of the new one",
    },
  );
}

function isOwn({ path, owner }: PreviousDirectory): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats !== undefined && stats.isDirectory() && stats.uid === owner;
}

function liveProcessFiles(folder: string, locksFile: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => PROCESS_FILE.test(name));
  } catch {
    return [];
  }
  if (names.length === 0) return [];
  const locked = new Set(
    [...read(locksFile).matchAll(/:(\d+) \d+ (?:\d+|EOF)$/gm)].map(([, inode]) => inode),
  );
  return names
    .map((name) => join(folder, name))
    .filter((path) => {
      const stats = lstatSync(path, { throwIfNoEntry: false });
      return stats?.isFile() === true && locked.has(String(stats.ino));
    });
}

/** The file says "pid N". */
function describe(path: string): string {
  return read(path).split("\n")[0] || path;
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

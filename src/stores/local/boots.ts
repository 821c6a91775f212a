// Folders that earlier boots left in the directory. Removed when nobody can be using them: a container may have a boot id
// of its own on the same kernel, and on a shared file system the folder may be another machine's present.

import { readdirSync, realpathSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { System } from "../../core/system.ts";
import { remoteFileSystem } from "./file-systems.ts";
import type { KernelLock } from "./kernel-lock.ts";
import { lockedByAnybody } from "./peers.ts";
import { isProcessId, type Place } from "./place.ts";

const BOOT_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const DRAFT = /^\.new-[0-9a-f]{32}$/;
/** A folder is made in a millisecond; a draft this old was left by a process that died. */
const OLD_DRAFT_MS = 60_000;

export function otherBoots(place: Place): string[] {
  const own = basename(place.folder);
  return readdirSync(place.root.path).filter((name) => BOOT_ID.test(name) && name !== own);
}

/** Whether a process that lives on this kernel has its file in that folder. */
export function bootInUse(place: Place, name: string, kernel: KernelLock): boolean {
  const folder = join(place.root.path, name);
  return readdirSync(folder).some((file) => isProcessId(file) && lockedByAnybody(join(folder, file), kernel));
}

/** Best effort: a folder that cannot be removed does no harm. */
export function removeOtherBoots(place: Place, kernel: KernelLock, system: System): void {
  try {
    if (remoteFileSystem(realpathSync(place.root.path)) !== null) return;
    for (const name of readdirSync(place.root.path)) {
      const path = join(place.root.path, name);
      const useless = DRAFT.test(name)
        ? system.wallMs() - statSync(path).mtimeMs > OLD_DRAFT_MS
        : BOOT_ID.test(name) && path !== place.folder && !bootInUse(place, name, kernel);
      if (useless) rmSync(path, { recursive: true, force: true });
    }
  } catch {
    // Somebody else removes it at the same time, or it is not ours to remove.
  }
}

// The directory that processes meet in: which one it is, and when it is refused.
// The default depends on the user id alone, so that cron, a service and a login shell meet; it must never depend on the
// environment. It is not in /dev/shm or /run/user: systemd empties those when the user logs out.

import { chmodSync, lstatSync, mkdirSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { InvalidArgumentError, UnsafeStoreError } from "../../core/errors.ts";
import { errno, fileError } from "./errors.ts";

const BASE = "/tmp";
const GROUP_OR_WORLD_WRITES = 0o022;
const STICKY = 0o1000;

export interface Root {
  readonly path: string;
  /** Chosen by the caller, who may share it between users. */
  readonly named: boolean;
  readonly stats: Stats;
}

export function userId(): number {
  return process.geteuid?.() ?? 0;
}

/** `base` is another one only in tests. */
export function openRoot(dir: string | undefined, base: string = BASE): Root {
  return dir === undefined ? ownRoot(base) : namedRoot(resolve(dir));
}

function ownRoot(base: string): Root {
  const path = `${base}/holdfast-${userId()}`;
  try {
    const around = statSync(base);
    if ((around.mode & 0o002) !== 0 && (around.mode & STICKY) === 0) {
      throw unsafe(
        base,
        "anybody may replace what is in it: it is world-writable without the sticky bit",
        `chmod +t ${base}`,
      );
    }
    makeDirectory(path);
    // Not stat: a link that somebody else planted must be seen as what it is.
    const stats = lstatSync(path);
    if (!stats.isDirectory())
      throw unsafe(path, "it is not a directory", "remove it, or name another directory");
    if (stats.uid !== userId()) {
      throw unsafe(
        path,
        `it belongs to user ${stats.uid}, not to user ${userId()}`,
        "remove it, or name another directory",
      );
    }
    if ((stats.mode & GROUP_OR_WORLD_WRITES) !== 0) {
      throw unsafe(path, "other users may write to it", `chmod 700 ${path}`);
    }
    return { path, named: false, stats };
  } catch (error) {
    throw fileError(error, "use the directory", path);
  }
}

function namedRoot(path: string): Root {
  try {
    makeDirectory(path);
    const stats = statSync(path);
    if (!stats.isDirectory())
      throw new InvalidArgumentError(`${path} is not a directory, and the local store needs one`);
    return { path, named: true, stats };
  } catch (error) {
    if (errno(error) === "ENOENT") {
      throw new InvalidArgumentError(
        `the local store cannot make ${path}: its parent ${dirname(path)} does not exist. Make it, or correct the path`,
        { cause: error },
      );
    }
    throw fileError(error, "use the directory", path);
  }
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, 0o700);
  } catch (error) {
    if (errno(error) === "EEXIST") return;
    // A directory that is there and may be used needs no permission to make it.
    if (errno(error) !== "ENOENT" && isDirectory(path)) return;
    throw error;
  }
  // The umask may have taken the owner's own bits.
  chmodSync(path, 0o700);
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function unsafe(path: string, what: string, fix: string): UnsafeStoreError {
  return new UnsafeStoreError(`the local store refuses ${path}: ${what}. To mend it: ${fix}`, {
    setting: path,
    fix,
  });
}

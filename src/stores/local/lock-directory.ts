// The directory in which processes share their locks: which one it is, and when it is rejected.
//
// The default depends on the user id alone, never on the environment, so that cron, a service and a login
// shell use the same directory. Other users must not be able to create it first:
// 1. root: /run/holdfast. Only root can create files in /run.
// 2. Others: .holdfast in the home directory of the passwd entry, if that directory belongs to the user and
//    is on a local file system. It is not under /run/user, because that directory appears with a login and
//    would split cron from the shell.
// 3. Otherwise (service users without a home): /tmp/holdfast-<uid>. Another user can create it first. The
//    store then rejects it and says what to do.

import { lstatSync, mkdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join, resolve } from "node:path";
import { InvalidArgumentError, UnsafeStoreError } from "../../core/errors.ts";
import { errno, fileError } from "./errors.ts";
import { remoteFileSystem } from "./file-systems.ts";

const GROUP_OR_WORLD_WRITES = 0o022;
const WORLD_WRITES = 0o002;
const STICKY = 0o1000;
const ROOT_DIRECTORY: string = process.platform === "darwin" ? "/var/run/holdfast" : "/run/holdfast";

/** The effective user of this process. Windows has no user ids: there every file counts as the user's own. */
export interface User {
  readonly uid: number | null;
  /** From the passwd entry, not from the environment. Null if there is no entry. */
  readonly home: string | null;
}

export interface LockDirectory {
  readonly path: string;
  /** Other users than the owner may write to it. Files and folders in it then follow its mode. */
  readonly isShared: boolean;
  /**
   * Root may read the directory of another user, and must not write there: that user can replace any path in
   * it.
   */
  readonly isReadOnly: boolean;
  /** Another user may rename a directory above it, and put a link in its place. */
  readonly isReplaceable: boolean;
  readonly stats: Stats;
}

export function currentUser(): User {
  let home: string | null = null;
  try {
    home = userInfo().homedir;
  } catch {
    // No passwd entry, as in a container that runs under an arbitrary user id.
  }
  return { uid: process.geteuid?.() ?? null, home };
}

/** Only tests pass `temporary`. */
export function defaultDirectory(user: User, temporary = "/tmp"): string {
  if (user.uid === 0) return ROOT_DIRECTORY;
  if (user.home !== null && isOwnLocalDirectory(user.home, user)) return join(user.home, ".holdfast");
  return join(temporary, `holdfast-${user.uid ?? "user"}`);
}

/** Opens the directory that the caller named, or the default one, and makes it if it is missing. */
export function openDirectory(named: string | undefined, user: User = currentUser()): LockDirectory {
  return named === undefined ? openDefault(defaultDirectory(user), user) : openNamed(resolve(named), user);
}

export function openDefault(path: string, user: User): LockDirectory {
  try {
    const parent = dirname(path);
    const around = statSync(parent);
    // Windows has no user ids, and its mode bits say nothing: Node reports that everybody may write.
    if (user.uid !== null && (around.mode & WORLD_WRITES) !== 0 && (around.mode & STICKY) === 0) {
      const why = "any user can replace what is in it: it is world-writable without the sticky bit";
      throw unsafe(parent, why, `chmod +t ${parent}`);
    }
    makeDirectory(path);
    // Not stat: a link that another user planted must be seen as a link.
    const stats = lstatSync(path);
    const another =
      "remove it, or name another directory: --store local:/some/dir, createLocks('local:/some/dir')";
    if (!stats.isDirectory()) throw unsafe(path, "it is not a directory", another);
    if (user.uid !== null && stats.uid !== user.uid)
      throw unsafe(path, `it belongs to user ${stats.uid}, not to user ${user.uid}`, another);
    if (user.uid !== null && (stats.mode & GROUP_OR_WORLD_WRITES) !== 0)
      throw unsafe(path, "other users may write to it", `chmod 700 ${path}`);
    rejectRemote(path);
    return { path, isShared: false, isReadOnly: false, isReplaceable: false, stats };
  } catch (error) {
    throw fileError(error, "use the directory", path);
  }
}

function openNamed(path: string, user: User): LockDirectory {
  try {
    makeDirectory(path);
    const stats = statSync(path);
    if (!stats.isDirectory()) throw new InvalidArgumentError(`dir must be a directory, got the file ${path}`);
    rejectRemote(path);
    const isShared = user.uid !== null && (stats.mode & GROUP_OR_WORLD_WRITES) !== 0;
    const isReadOnly = user.uid === 0 && stats.uid !== 0;
    if (isShared && user.uid === 0 && process.platform !== "linux") {
      const why =
        "other users may write to it, and this platform gives root no safe way to share a directory";
      throw unsafe(path, why, "run this process as one of these users");
    }
    return { path, isShared, isReadOnly, isReplaceable: isReplaceable(path, user), stats };
  } catch (error) {
    if (errno(error) !== "ENOENT") throw fileError(error, "use the directory", path);
    throw new InvalidArgumentError(
      `the local store cannot create ${path}: its parent ${dirname(path)} does not exist. Create it first`,
      { cause: error },
    );
  }
}

/**
 * Whether a user who is neither root nor this one may write to a directory above it. The sticky bit
 * protects entries.
 */
function isReplaceable(path: string, { uid }: User): boolean {
  if (uid === null) return false;
  for (let at = dirname(realpathSync(path)); ; at = dirname(at)) {
    const { mode, uid: owner } = statSync(at);
    const isOpen = (mode & GROUP_OR_WORLD_WRITES) !== 0 && (mode & STICKY) === 0;
    if (isOpen || (owner !== 0 && owner !== uid)) return true;
    if (at === dirname(at)) return false;
  }
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, 0o700);
  } catch (error) {
    if (errno(error) === "EEXIST") return;
    // A directory that exists and is usable needs no permission to make it.
    if (errno(error) !== "ENOENT" && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
      return;
    throw error;
  }
}

function isOwnLocalDirectory(path: string, user: User): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isDirectory()) return false;
  return (user.uid === null || stats.uid === user.uid) && remoteFileSystem(path) === null;
}

/** Machines cannot share locks on a network file system: each has its own clock and its own sockets (P19). */
function rejectRemote(path: string): void {
  const name = remoteFileSystem(path);
  if (name === null) return;
  throw unsafe(
    path,
    `it is on ${name}, which other machines may share`,
    "name a directory on a local disk, or use a store that is made for several machines",
  );
}

function unsafe(path: string, what: string, fix: string): UnsafeStoreError {
  return new UnsafeStoreError(`the local store rejects ${path}: ${what}`, {
    setting: path,
    fix,
  });
}

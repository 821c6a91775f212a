// The folder of one namespace and one boot:
//
//   <directory>/<boot>-<namespace>/log.<n>   the log; the largest n is in use
//                                 /draft.<n>.<process>   a log that is being made
//                                 /spare     given up when the disk is full
//                                 /<process> socket of an opened store: wakes it, and proves that it lives
//   <directory>/.new-<random>                a folder that is being made, until it is complete
//
// In a directory that other users may write to, or below one, every path is reached through a descriptor of
// the folder (/proc/self/fd), and links are not followed. So nobody can redirect a process to other files
// by replacing a folder. The mode of a file is set through its descriptor, never by path. The same
// descriptor makes socket addresses short where the path is too long.

import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { UnsafeStoreError } from "../../core/errors.ts";
import { errno, fileError } from "./errors.ts";
import type { LockDirectory } from "./lock-directory.ts";

const PROCESS_NAME = /^[0-9a-f]{12}$/;
const NAME_DIGITS = 8;
const PROCESS_DIGITS = 12;
/** Systemd's clean-up of /tmp leaves files with the sticky bit alone. */
const STICKY = 0o1000;
/**
 * A socket address has 108 bytes on Linux and 104 on macOS. Node 20 truncates a longer one without an error.
 */
const LONGEST_ADDRESS_BYTES = 100;
const { O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_WRONLY } = constants;
/** Windows has no such flags. */
export const O_NOFOLLOW: number = constants.O_NOFOLLOW ?? 0;
export const O_NONBLOCK: number = constants.O_NONBLOCK ?? 0;

export function isProcessName(text: string): boolean {
  return PROCESS_NAME.test(text);
}

export function processName(randomId: string): string {
  return randomId.slice(0, PROCESS_DIGITS);
}

/** The name of a folder, and the pattern of all such names. Short, because sockets are in it. */
function folderName(bootId: string, namespace: string): string {
  return `${shortHash(bootId)}-${shortHash(namespace)}`;
}

export const FOLDER_NAME: RegExp = /^[0-9a-f]{8}-[0-9a-f]{8}$/;

export function bootOf(name: string): string {
  return name.slice(0, NAME_DIGITS);
}

export interface FolderOptions {
  readonly directory: LockDirectory;
  readonly bootId: string;
  readonly namespace: string;
  readonly emptyLog: Buffer;
  randomId(): string;
}

export class Folder {
  readonly directory: LockDirectory;
  readonly namespace: string;
  readonly name: string;
  /** For people. */
  readonly path: string;
  /** How files in the folder are reached. */
  readonly base: string;
  readonly #inode: number;
  readonly #fds: readonly number[];

  private constructor(options: FolderOptions, base: string, fds: readonly number[]) {
    this.directory = options.directory;
    this.namespace = options.namespace;
    this.name = folderName(options.bootId, options.namespace);
    this.path = join(options.directory.path, this.name);
    this.base = base;
    this.#inode = statSync(base).ino;
    this.#fds = fds;
  }

  /** Null if there is no folder and the directory is read-only. */
  static open(options: FolderOptions): Folder | null {
    const { directory } = options;
    const name = folderName(options.bootId, options.namespace);
    const path = join(directory.path, name);
    const fds: number[] = [];
    try {
      const isLinux = process.platform === "linux";
      if (!isLinux && isTooLong(path)) throw tooLong(path);
      const needsDescriptor = isLinux && (directory.isShared || directory.isReplaceable || isTooLong(path));
      const around = needsDescriptor ? descriptorPath(directory.path, fds) : directory.path;
      if (needsDescriptor) rejectReplaced(directory, fds[0] as number);
      const inside = join(around, name);
      if (statSync(inside, { throwIfNoEntry: false }) === undefined) {
        if (directory.isReadOnly) return null;
        build(options, around, inside);
      }
      return new Folder(options, needsDescriptor ? descriptorPath(inside, fds) : inside, fds);
    } catch (error) {
      for (const fd of fds) closeSync(fd);
      throw fileError(error, "make its files in", directory.path);
    }
  }

  /** False after the folder was moved or replaced: other processes no longer find this one. */
  isLinked(): boolean {
    return lstatSync(this.path, { throwIfNoEntry: false })?.ino === this.#inode;
  }

  join(name: string): string {
    return `${this.base}/${name}`;
  }

  /** Where the socket of a process listens. Named pipes of Windows are not files. */
  address(name: string): string {
    return process.platform === "win32"
      ? `\\\\.\\pipe\\holdfast-${shortHash(this.path)}-${name}`
      : this.join(name);
  }

  /** Makes a file that must not exist yet. Its mode follows the directory, whatever the umask is. */
  create(path: string): number {
    return createFile(path, this.directory);
  }

  /** Null if there is no such file. A link or a special file in the place of a log is rejected (P19). */
  open(path: string, flags: number): number | null {
    let fd: number;
    try {
      // A pipe in its place would make a reader wait for a writer.
      fd = openSync(path, flags | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      if (errno(error) === "ENOENT") return null;
      if (errno(error) === "ELOOP") throw notOurs(path, "it is a symbolic link");
      throw error;
    }
    const stats = fstatSync(fd);
    const isOwners = this.directory.isShared || stats.uid === this.directory.stats.uid;
    if (stats.isFile() && isOwners) return fd;
    closeSync(fd);
    throw notOurs(path, stats.isFile() ? `it belongs to user ${stats.uid}` : "it is not a regular file");
  }

  /**
   * Renames a folder without a log, so that a new one can be made. Processes that still use it notice that
   * their files are gone.
   */
  setAside(randomId: string): void {
    const around = join(this.base, "..");
    try {
      renameSync(join(around, this.name), join(around, `.old-${randomId}`));
    } catch (error) {
      if (errno(error) !== "ENOENT") throw error;
    }
  }

  close(): void {
    for (const fd of this.#fds) closeSync(fd);
  }
}

/** The mode bits that give access to all users who may write to the directory. */
export function sharedBits({ stats, isShared }: LockDirectory): number {
  if (!isShared) return 0;
  return ((stats.mode & 0o020) === 0 ? 0 : 0o060) | ((stats.mode & 0o002) === 0 ? 0 : 0o006);
}

function createFile(path: string, directory: LockDirectory): number {
  const mode = STICKY | 0o600 | sharedBits(directory);
  const fd = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  try {
    if ((fstatSync(fd).mode & 0o7777) !== mode && process.platform !== "win32") fchmodSync(fd, mode);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Makes the folder under another name and renames it, so that it appears complete or not at all. */
function build(options: FolderOptions, around: string, path: string): void {
  const { directory } = options;
  const draft = join(around, `.new-${options.randomId()}`);
  const fds: number[] = [];
  let log = join(draft, "log.0");
  mkdirSync(draft, 0o700);
  try {
    if (directory.isShared) log = join(shareFolder(draft, directory, fds), "log.0");
    const fd = createFile(log, directory);
    try {
      if (writeSync(fd, options.emptyLog) < options.emptyLog.length)
        throw Object.assign(new Error("a log was written in part"), { code: "ENOSPC" });
    } finally {
      closeSync(fd);
    }
    renameSync(draft, path);
  } catch (error) {
    removeQuietly(() => unlinkSync(log));
    removeQuietly(() => rmdirSync(draft));
    // Another process was first, and its folder is as complete as ours. Windows says EPERM.
    const isThere = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
    if (!isThere) throw error;
  } finally {
    for (const fd of fds) closeSync(fd);
  }
}

/**
 * Opens the new folder to those who may write to the directory. Returns how the folder is reached: another
 * user may replace its name at any moment, by a link, or by a folder whose mode must not change. On
 * platforms other than Linux root does not share a directory.
 */
function shareFolder(path: string, directory: LockDirectory, fds: number[]): string {
  const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  fds.push(fd);
  const base = process.platform === "linux" ? `/proc/self/fd/${fd}` : path;
  const isOurs = fstatSync(fd).uid === process.geteuid?.() && readdirSync(base).length === 0;
  if (!isOurs) throw notOurs(path, "it is not the folder that was just made");
  const bits = sharedBits(directory);
  // Users who may read and write a file of the folder may also search the folder.
  fchmodSync(fd, (directory.stats.mode & 0o2000) | 0o700 | bits | ((bits & 0o044) >> 2));
  return base;
}

/**
 * A path to the directory that nobody can redirect. The descriptor stays open for as long as the path is
 * used.
 */
function descriptorPath(path: string, fds: number[]): string {
  // The directory that the caller named may be a link; a folder in it may not.
  const isFolder = fds.length > 0;
  const fd = openSync(path, O_RDONLY | O_DIRECTORY | (isFolder ? O_NOFOLLOW : 0));
  fds.push(fd);
  return `/proc/self/fd/${fd}`;
}

/** Checks that the opened directory is the one whose owner and mode were checked. */
function rejectReplaced({ path, stats }: LockDirectory, fd: number): void {
  const { dev, ino } = fstatSync(fd);
  if (dev === stats.dev && ino === stats.ino) return;
  throw new UnsafeStoreError(`the local store rejects ${path}: another user replaced it during this call`, {
    setting: path,
    fix: "name a directory that no other user can replace",
  });
}

function isTooLong(folder: string): boolean {
  // The socket has a dot before its name until it listens.
  return (
    Buffer.byteLength(folder) + 2 + PROCESS_DIGITS > LONGEST_ADDRESS_BYTES && process.platform !== "win32"
  );
}

function tooLong(path: string): UnsafeStoreError {
  return new UnsafeStoreError(
    `the path of a socket must be at most ${LONGEST_ADDRESS_BYTES} bytes, got more in ${path}`,
    { setting: path, fix: "name a directory with a shorter path" },
  );
}

function notOurs(path: string, what: string): UnsafeStoreError {
  return new UnsafeStoreError(`the local store rejects ${path}: ${what}, so holdfast did not make it`, {
    setting: path,
    fix: "stop every process that uses this directory, then delete the file",
  });
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, NAME_DIGITS);
}

function removeQuietly(remove: () => void): void {
  try {
    remove();
  } catch {
    // The file or folder does not exist.
  }
}

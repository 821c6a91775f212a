// Proof that this process lives: a file that it keeps locked. The kernel lets go of the lock when the process is gone,
// however it died, and no process id or its namespace is involved. The lock is taken before the file gets its name, so
// nobody ever sees the file of a living process unlocked.

import { closeSync, constants, fstatSync, openSync, renameSync, writeSync } from "node:fs";
import { StoreUnavailableError } from "../../core/errors.ts";
import { errno, fileError } from "./errors.ts";
import type { KernelLock } from "./kernel-lock.ts";
import { remove } from "./key-files.ts";
import type { Place } from "./place.ts";

export const LIFE_BYTE = 0;
/** A cleaner may take a nameless file for a dead one in the instant before it is locked. */
const TRIES = 5;

export class ProcessFile {
  readonly id: string;
  /** A child that inherits it lives on in the eyes of others. */
  readonly fd: number;
  readonly #path: string;
  readonly #kernel: KernelLock;

  private constructor(id: string, fd: number, path: string, kernel: KernelLock) {
    this.id = id;
    this.fd = fd;
    this.#path = path;
    this.#kernel = kernel;
  }

  static create(place: Place, kernel: KernelLock, freshId: () => string, label: string): ProcessFile {
    for (let left = TRIES; left > 0; left -= 1) {
      const id = freshId();
      const file = tryCreate(place, kernel, id, label);
      if (file !== null) return new ProcessFile(id, file, place.processPath(id), kernel);
    }
    throw new StoreUnavailableError(
      `the local store could not keep a file of its own in ${place.folder}: another process removes them`,
    );
  }

  /** False once somebody removed the file: from then on others take this process for dead. */
  get intact(): boolean {
    return fstatSync(this.fd).nlink > 0;
  }

  close(): void {
    remove(this.#path);
    this.#kernel.unlock(this.fd, LIFE_BYTE);
    closeSync(this.fd);
  }
}

function tryCreate(place: Place, kernel: KernelLock, id: string, label: string): number | null {
  const draft = place.processPath(`.${id}`);
  let fd = -1;
  try {
    fd = openSync(draft, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, place.fileMode);
    place.adopt(fd);
    // For people who look into the folder; nothing reads it.
    writeSync(fd, `pid ${process.pid}\nlabel ${label}\n`);
    if (kernel.tryExclusive(fd, LIFE_BYTE)) {
      renameSync(draft, place.processPath(id));
      return fd;
    }
    closeSync(fd);
    return null;
  } catch (error) {
    if (fd !== -1) closeSync(fd);
    remove(draft);
    if (fd !== -1 && errno(error) === "ENOENT") return null;
    throw fileError(error, "lock a file of its own in", place.folder);
  }
}

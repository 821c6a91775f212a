// The slice of `fs-native-extensions` that this store needs: byte-range locks of an open file description.
// They end with the last descriptor of that opening (so with the process, however it died), are inherited by a child,
// and exclude two openings within one process. Nothing here ever blocks: a busy lock is an answer.

import { createRequire } from "node:module";
import { UnsupportedError } from "../../core/errors.ts";

interface Addon {
  tryLock(fd: number, offset: number, length: number, options?: { shared?: boolean }): boolean;
  unlock(fd: number, offset: number, length: number): void;
}

/** Each lock covers the one byte at `offset`. */
export interface KernelLock {
  tryExclusive(fd: number, offset: number): boolean;
  tryShared(fd: number, offset: number): boolean;
  unlock(fd: number, offset: number): void;
}

const SHARED = { shared: true };

/** Loads the native addon: not before a store is opened. */
export function loadKernelLock(platform: string = process.platform): KernelLock {
  if (platform !== "linux") {
    throw new UnsupportedError(`the local store needs Linux (this is ${platform}): name another store`);
  }
  const addon = load();
  return {
    tryExclusive: (fd, offset) => addon.tryLock(fd, offset, 1),
    tryShared: (fd, offset) => addon.tryLock(fd, offset, 1, SHARED),
    unlock: (fd, offset) => addon.unlock(fd, offset, 1),
  };
}

function load(): Addon {
  try {
    return createRequire(import.meta.url)("fs-native-extensions") as Addon;
  } catch (cause) {
    throw new UnsupportedError(
      `the local store cannot load its native part (fs-native-extensions) on ${process.platform}-${process.arch}: ` +
        "install the dependencies on this very machine, or name another store",
      { cause },
    );
  }
}

// Whether another process lives: its file is there and somebody has it locked. The try is for a shared lock, so that two
// who look at once do not take each other for the owner. Whoever finds a dead one removes what it left behind.
// What cannot be asked counts as alive: a key kept too long is safer than one given twice.

import { closeSync, openSync } from "node:fs";
import { errno } from "./errors.ts";
import type { KernelLock } from "./kernel-lock.ts";
import { remove } from "./key-files.ts";
import { isProcessId, type Place } from "./place.ts";
import { LIFE_BYTE } from "./process-file.ts";

const OPEN_FILES = 128;

export class Peers {
  readonly #place: Place;
  readonly #kernel: KernelLock;
  readonly #open = new Map<string, number>();

  constructor(place: Place, kernel: KernelLock) {
    this.#place = place;
    this.#kernel = kernel;
  }

  alive(id: string): boolean {
    if (!isProcessId(id)) return false;
    const path = this.#place.processPath(id);
    try {
      const fd = this.#open.get(id) ?? this.#keep(id, openSync(path, "r"));
      if (!this.#kernel.tryShared(fd, LIFE_BYTE)) return true;
    } catch (error) {
      return errno(error) !== "ENOENT";
    }
    this.#drop(id);
    remove(path);
    remove(this.#place.socketPath(id));
    return false;
  }

  close(): void {
    for (const id of this.#open.keys()) this.#drop(id);
  }

  #keep(id: string, fd: number): number {
    for (const old of this.#open.keys()) {
      if (this.#open.size < OPEN_FILES) break;
      this.#drop(old);
    }
    this.#open.set(id, fd);
    return fd;
  }

  /** Closing also lets go of the shared lock. */
  #drop(id: string): void {
    const fd = this.#open.get(id);
    if (fd !== undefined) closeSync(fd);
    this.#open.delete(id);
  }
}

/** Whether the file at this path is locked by a living process; for files outside of the folder of this boot. */
export function lockedByAnybody(path: string, kernel: KernelLock): boolean {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    return errno(error) !== "ENOENT";
  }
  try {
    return !kernel.tryShared(fd, LIFE_BYTE);
  } finally {
    closeSync(fd);
  }
}

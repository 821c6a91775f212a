// The key files that this store has open, most recently used last, and how a new one comes to be.
// A new file is made under a temporary name and linked into place complete, so that an empty or short file is always
// damage and never a free key. Files are closed only between steps: closing a latched one would let go of its latch.

import { createHash } from "node:crypto";
import { closeSync, constants, linkSync, openSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { errno, fileError } from "./errors.ts";
import type { KernelLock } from "./kernel-lock.ts";
import { emptyText, KeyFile } from "./key-file.ts";
import type { KeyRecord } from "../shared/record.ts";
import type { Place } from "./place.ts";
import { createSlotFile, SlotFile } from "./slot-file.ts";

/** Opening again costs 4 us, a descriptor kept costs one of the process's own. */
const OPEN_FILES = 256;
/** A file that vanishes so often in a row is somebody else's game. */
const REOPENS = 16;

export class KeyFiles {
  readonly #place: Place;
  readonly #kernel: KernelLock;
  readonly #namespace: string;
  readonly #self: string;
  readonly #prefix: string;
  readonly #open = new Map<string, KeyFile>();
  #drafts = 0;
  #made = 0;

  constructor(place: Place, kernel: KernelLock, namespace: string, self: string) {
    this.#place = place;
    this.#kernel = kernel;
    this.#namespace = namespace;
    this.#self = self;
    this.#prefix = digest(namespace).slice(0, 16);
  }

  /** What the names of this namespace's files start with. */
  get prefix(): string {
    return this.#prefix;
  }

  path(key: string): string {
    return join(this.#place.keys, this.#prefix + digest(`${this.#namespace}\0${key}`));
  }

  /** The key's file with its latch taken; "busy" when another has it, null when there is no file and none shall be made. */
  latched(key: string, make: boolean, nowMs: number): KeyFile | "busy" | null {
    for (let tries = 0; tries < REOPENS; tries += 1) {
      const file = this.#find(key, make);
      if (file === null) return null;
      if (!file.slots.tryLatch()) {
        if (file.slots.linked) return "busy";
      } else if (isCurrent(file, nowMs)) {
        return file;
      }
      this.#drop(key, file);
    }
    return "busy";
  }

  /** The key's file if this store has it open already. */
  known(key: string): KeyFile | undefined {
    return this.#open.get(key);
  }

  /** A copy of the key's record, or null when it has no file; needs no latch. */
  snapshot(key: string): KeyRecord | null {
    for (let tries = 0; tries < REOPENS; tries += 1) {
      const file = this.#find(key, false);
      if (file === null) return null;
      const record = file.snapshot();
      if (record !== null) return record;
      this.#drop(key, file);
    }
    return null;
  }

  /** Only between steps. Returns how many files were made since the last time. */
  trim(): number {
    for (const [key, file] of this.#open) {
      if (this.#open.size <= OPEN_FILES) break;
      this.#drop(key, file);
    }
    const made = this.#made;
    this.#made = 0;
    return made;
  }

  close(): void {
    for (const [key, file] of this.#open) this.#drop(key, file);
  }

  #find(key: string, make: boolean): KeyFile | null {
    const known = this.#open.get(key);
    if (known !== undefined) {
      this.#open.delete(key);
      this.#open.set(key, known);
      return known;
    }
    const path = this.path(key);
    try {
      const fd = openExisting(path) ?? (make ? this.#create(path, key) : null);
      if (fd === null) return null;
      const file = new KeyFile(new SlotFile(path, fd, this.#kernel, key), {
        namespace: this.#namespace,
        key,
      });
      this.#open.set(key, file);
      return file;
    } catch (error) {
      throw fileError(error, "open", path, key);
    }
  }

  #drop(key: string, file: KeyFile): void {
    this.#open.delete(key);
    file.slots.close();
  }

  #create(path: string, key: string): number | null {
    this.#drafts += 1;
    const draft = join(this.#place.keys, `.${this.#self}-${this.#drafts}`);
    try {
      const fd = createSlotFile(draft, emptyText({ namespace: this.#namespace, key }), this.#place);
      if (link(draft, path)) {
        this.#made += 1;
        return fd;
      }
      closeSync(fd);
      return openExisting(path);
    } finally {
      remove(draft);
    }
  }
}

/** Asks under the latch, and lets go of it unless the answer is yes. */
function isCurrent(file: KeyFile, nowMs: number): boolean {
  let current = false;
  try {
    current = file.current(nowMs);
    // Marked but still there: whoever removed it was killed before it was done.
    if (!current && file.slots.linked) remove(file.slots.path);
    return current;
  } finally {
    if (!current) file.slots.unlatch();
  }
}

export function openExisting(path: string): number | null {
  try {
    return openSync(path, constants.O_RDWR);
  } catch (error) {
    if (errno(error) === "ENOENT") return null;
    throw error;
  }
}

/** Removes a file that may be gone already, or be somebody else's to remove. */
export function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!["ENOENT", "EACCES", "EPERM", "EROFS"].includes(errno(error))) throw error;
  }
}

function link(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    // Another process made it first.
    if (errno(error) === "EEXIST") return false;
    throw error;
  }
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

// One small file that holds one text, changed under a latch and readable without it.
// A write touches only the slot that is not in use, so a kill at any point leaves the old text or the new one. There is no
// fsync: the files do not outlive the boot, and a killed process loses nothing of the page cache.

import { closeSync, constants, fstatSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { damaged, otherVersion } from "./errors.ts";
import type { KernelLock } from "./kernel-lock.ts";
import {
  checksum,
  FORMAT,
  freePlace,
  HEADER_BYTES,
  INLINE_BYTES,
  PAGE_BYTES,
  readSlot,
  type Slot,
  SLOT_BYTES,
  sameSlot,
  writeHeader,
} from "./slots.ts";

const LATCH_BYTE = 0;
/** Locked, shared, by those who have waited for the latch in vain for a while. */
const WANT_BYTE = 1;
/** Without the latch a reader may see a write half-done; by the next look it is over. */
const PEEKS = 8;
/** The text of a file that is about to be removed: whoever still has it open sees that it is no meeting place any more. */
export const GONE = "";
/** A slot's length field that was cut could claim anything. */
const LARGEST_TEXT_BYTES = 1 << 28;

// Reading and writing is synchronous, so one page and one slot serve all files of this thread.
const page = Buffer.alloc(PAGE_BYTES);
const draft = Buffer.alloc(SLOT_BYTES);

export class SlotFile {
  readonly path: string;
  readonly fd: number;
  readonly #kernel: KernelLock;
  /** For errors. */
  readonly #key: string | undefined;
  #slot: Slot | null = null;
  #text = "";

  constructor(path: string, fd: number, kernel: KernelLock, key?: string) {
    this.#key = key;
    this.path = path;
    this.fd = fd;
    this.#kernel = kernel;
  }

  tryLatch(): boolean {
    return this.#kernel.tryExclusive(this.fd, LATCH_BYTE);
  }

  unlatch(): void {
    this.#kernel.unlock(this.fd, LATCH_BYTE);
  }

  want(): void {
    this.#kernel.tryShared(this.fd, WANT_BYTE);
  }

  unwant(): void {
    this.#kernel.unlock(this.fd, WANT_BYTE);
  }

  get wanted(): boolean {
    if (!this.#kernel.tryExclusive(this.fd, WANT_BYTE)) return true;
    this.unwant();
    return false;
  }

  /** Whether the name still leads to this file. The number of links would not do: a draft's name may be left over. */
  get linked(): boolean {
    const there = statSync(this.path, { throwIfNoEntry: false });
    if (there === undefined) return false;
    const own = fstatSync(this.fd);
    return there.ino === own.ino && there.dev === own.dev;
  }

  /** What the last read or write found or left. */
  get text(): string {
    return this.#text;
  }

  /** The newest complete text. A text that has not changed since the last look is the same string. */
  read(): string {
    const got = readSync(this.fd, page, 0, PAGE_BYTES, 0);
    if (got < PAGE_BYTES)
      throw damaged(this.path, `${got} bytes instead of at least ${PAGE_BYTES}`, this.#key);
    for (const slot of newestFirst(this.path, this.#key)) {
      if (this.#slot !== null && sameSlot(slot, this.#slot)) return this.#text;
      const text = this.#textOf(slot);
      if (text === null) continue;
      this.#slot = slot;
      this.#text = text;
      return text;
    }
    throw damaged(this.path, "no slot has a correct checksum", this.#key);
  }

  /** As read, for those who do not have the latch. */
  peek(): string {
    for (let left = PEEKS; ; left -= 1) {
      try {
        return this.read();
      } catch (error) {
        if (left === 0) throw error;
      }
    }
  }

  /** Only under the latch and after a read under the same latch. */
  write(text: string): void {
    this.#slot = writeText(this.fd, text, this.#slot);
    this.#text = text;
  }

  close(): void {
    closeSync(this.fd);
  }

  #textOf(slot: Slot): string | null {
    const at = slot.index * SLOT_BYTES;
    if (slot.place === 0) {
      if (slot.length > INLINE_BYTES || checksum(page, at, slot.length, null) !== slot.sum) return null;
      return page.toString("utf8", at + HEADER_BYTES, at + HEADER_BYTES + slot.length);
    }
    if (slot.length > LARGEST_TEXT_BYTES) return null;
    const text = Buffer.allocUnsafe(slot.length);
    if (readSync(this.fd, text, 0, slot.length, slot.place * PAGE_BYTES) < slot.length) return null;
    return checksum(page, at, slot.length, text) === slot.sum ? text.toString("utf8") : null;
  }
}

/** Makes the file complete under the name given, which must be free. */
export function createSlotFile(
  path: string,
  text: string,
  owner: { fileMode: number; adopt(fd: number): void },
): number {
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, owner.fileMode);
  try {
    owner.adopt(fd);
    page.fill(0);
    writeAll(fd, page, PAGE_BYTES, 0);
    writeText(fd, text, null);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function newestFirst(path: string, key: string | undefined): readonly Slot[] {
  const slots = [readSlot(page, 0), readSlot(page, 1)].filter((slot) => slot !== null);
  const usable: Slot[] = [];
  for (const slot of slots) {
    if ("otherFormat" in slot) throw otherVersion(path, slot.otherFormat, FORMAT, key);
    usable.push(slot);
  }
  return usable.length === 2 && (usable[0] as Slot).seq < (usable[1] as Slot).seq ? usable.reverse() : usable;
}

function writeText(fd: number, text: string, inUse: Slot | null): Slot {
  const index = inUse?.index === 0 ? 1 : 0;
  const seq = (inUse?.seq ?? 0) + 1;
  // Three bytes of UTF-8 per unit of the string is the most there can be.
  const small = text.length * 3 <= INLINE_BYTES || Buffer.byteLength(text) <= INLINE_BYTES;
  if (small) {
    const length = draft.write(text, HEADER_BYTES);
    const slot = writeHeader(draft, { index, seq, length, place: 0 }, null);
    writeAll(fd, draft, HEADER_BYTES + length, index * SLOT_BYTES);
    return slot;
  }
  const bytes = Buffer.from(text);
  const place = freePlace(bytes.length, inUse);
  // The text first: until its header is written nobody looks at it.
  writeAll(fd, bytes, bytes.length, place * PAGE_BYTES);
  const slot = writeHeader(draft, { index, seq, length: bytes.length, place }, bytes);
  writeAll(fd, draft, HEADER_BYTES, index * SLOT_BYTES);
  return slot;
}

function writeAll(fd: number, bytes: Buffer, length: number, at: number): void {
  let done = 0;
  while (done < length) {
    const wrote = writeSync(fd, bytes, done, length - done, at + done);
    // A file system that takes nothing and says nothing is full.
    if (wrote === 0) throw Object.assign(new Error("a write took no bytes"), { code: "ENOSPC" });
    done += wrote;
  }
}

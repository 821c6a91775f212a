// The bytes of a slot file: two slots in the first page, each a header and a text, written in turn.
// Pure arithmetic over buffers; touches no file. A write that was cut short anywhere leaves a slot whose checksum is wrong.
//
// Header: magic, version, checksum over all that follows, 4 unused bytes, seq (double), length of the text in bytes,
// place (0: the text follows, else the number of the page where it starts).

import { crc32 } from "node:zlib";

export const PAGE_BYTES = 4_096;
export const SLOT_BYTES: number = PAGE_BYTES / 2;
export const HEADER_BYTES = 32;
export const INLINE_BYTES: number = SLOT_BYTES - HEADER_BYTES;
export const FORMAT = 1;

/** "hold" */
const MAGIC = 0x646c6f68;
const AT_VERSION = 4;
const AT_SUM = 8;
const AT_SEQ = 16;
const AT_LENGTH = 24;
const AT_PLACE = 28;

export interface Slot {
  readonly index: 0 | 1;
  readonly seq: number;
  readonly length: number;
  readonly place: number;
  readonly sum: number;
}

export function readSlot(page: Buffer, index: 0 | 1): Slot | { readonly otherFormat: number } | null {
  const at = index * SLOT_BYTES;
  if (page.readUInt32LE(at) !== MAGIC) return null;
  const version = page.readUInt32LE(at + AT_VERSION);
  // 0 is what a first write leaves that was cut after the magic.
  if (version === 0) return null;
  if (version !== FORMAT) return { otherFormat: version };
  return {
    index,
    seq: page.readDoubleLE(at + AT_SEQ),
    length: page.readUInt32LE(at + AT_LENGTH),
    place: page.readUInt32LE(at + AT_PLACE),
    sum: page.readUInt32LE(at + AT_SUM),
  };
}

export function sameSlot(a: Slot, b: Slot): boolean {
  return (
    a.seq === b.seq && a.sum === b.sum && a.length === b.length && a.place === b.place && a.index === b.index
  );
}

/** The sum of the slot that starts at `at`; `apart` is its text where that lies outside of the slot. */
export function checksum(bytes: Buffer, at: number, length: number, apart: Buffer | null): number {
  if (apart === null) return crc32(bytes.subarray(at + AT_SEQ, at + HEADER_BYTES + length));
  return crc32(apart, crc32(bytes.subarray(at + AT_SEQ, at + HEADER_BYTES)));
}

/** Puts the header before the text in `target`, or for a text that lies elsewhere, and returns the slot. */
export function writeHeader(target: Buffer, slot: Omit<Slot, "sum">, apart: Buffer | null): Slot {
  target.writeUInt32LE(MAGIC, 0);
  target.writeUInt32LE(FORMAT, AT_VERSION);
  target.writeUInt32LE(0, AT_SUM + 4);
  target.writeDoubleLE(slot.seq, AT_SEQ);
  target.writeUInt32LE(slot.length, AT_LENGTH);
  target.writeUInt32LE(slot.place, AT_PLACE);
  const sum = checksum(target, 0, slot.length, apart);
  target.writeUInt32LE(sum, AT_SUM);
  return { index: slot.index, seq: slot.seq, length: slot.length, place: slot.place, sum };
}

/** The page where a text that does not fit its slot may go: never where the text of the slot in use lies. */
export function freePlace(length: number, inUse: Slot | null): number {
  if (inUse === null || inUse.place === 0) return 1;
  const fitsBefore = 1 + pages(length) <= inUse.place;
  return fitsBefore ? 1 : inUse.place + pages(inUse.length);
}

function pages(length: number): number {
  return Math.ceil(length / PAGE_BYTES);
}

// Splits the byte stream into frames: four bytes of length, then that many bytes.

import { ProtocolError } from "./jute.ts";

/** Far above what a server with default settings sends. A larger length is another protocol. */
export const LARGEST_FRAME: number = 64 * 1024 * 1024;
/** The longest request that a server with default settings accepts (jute.maxbuffer). */
export const LONGEST_REQUEST = 0xfffff;

const HEAD = 4;

export class FrameCutter {
  #rest: Buffer = Buffer.alloc(0);
  /** Pieces of an incomplete frame. They are joined once, so that a large frame costs linear time. */
  #pieces: Buffer[] = [];
  #missing = 0;

  /** The frames that this chunk completes. Unusable after it has thrown a ProtocolError. */
  *take(chunk: Buffer): Generator<Buffer, void, void> {
    this.#pieces.push(chunk);
    this.#missing -= chunk.length;
    if (this.#missing > 0) return;
    let bytes = this.#pieces.length === 1 ? chunk : Buffer.concat(this.#pieces);
    if (this.#rest.length > 0) bytes = Buffer.concat([this.#rest, bytes]);
    this.#pieces = [];
    let at = 0;
    while (bytes.length - at >= HEAD) {
      const length = bytes.readInt32BE(at);
      if (length < 0 || length > LARGEST_FRAME) throw new ProtocolError(`a frame of ${length} bytes`);
      if (bytes.length - at - HEAD < length) break;
      yield bytes.subarray(at + HEAD, at + HEAD + length);
      at += HEAD + length;
    }
    this.#rest = bytes.subarray(at);
    const wanted = this.#rest.length >= HEAD ? HEAD + this.#rest.readInt32BE(0) : HEAD;
    this.#missing = wanted - this.#rest.length;
  }
}

/** Writes the length into the first four bytes, which are reserved for it. */
export function closeFrame(bytes: Buffer): Buffer {
  bytes.writeInt32BE(bytes.length - HEAD, 0);
  return bytes;
}

export const FRAME_HEAD: number = HEAD;

/** Bytes of a string in a packet besides its own. */
export const STRING_HEAD = 4;

/** Groups of at most so many bytes, in order. A longer text is a group of its own. At least one group. */
export function splitByBytes(texts: Iterable<string>, longest: number): string[][] {
  let [group, bytes]: [string[], number] = [[], 0];
  const groups = [group];
  for (const text of texts) {
    const size = Buffer.byteLength(text) + STRING_HEAD;
    if (bytes + size > longest && group.length > 0) {
      [group, bytes] = [[], 0];
      groups.push(group);
    }
    group.push(text);
    bytes += size;
  }
  return groups;
}

// The stream of bytes cut into frames: four bytes of length, then so many bytes. Chunks come as the network likes.

import { ProtocolError } from "./jute.ts";

/** Far above what a server of default settings sends: a larger length is not a frame but somebody who speaks another language. */
export const LARGEST_FRAME: number = 64 * 1024 * 1024;
/** The longest request that a server of default settings accepts (jute.maxbuffer). */
export const LONGEST_REQUEST = 0xfffff;

const HEAD = 4;

export class FrameCutter {
  #rest: Buffer = Buffer.alloc(0);
  /** Pieces of a frame that is not complete. Joined once it is, so that a large one does not cost the square of its size. */
  #pieces: Buffer[] = [];
  #missing = 0;

  /** The frames that are complete with this chunk. Throws a ProtocolError, and is of no use afterwards. */
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

/** `bytes` begins with four that are free for its length. */
export function closeFrame(bytes: Buffer): Buffer {
  bytes.writeInt32BE(bytes.length - HEAD, 0);
  return bytes;
}

export const FRAME_HEAD: number = HEAD;

/** What one string costs in a packet besides its own bytes. */
export const STRING_HEAD = 4;

/** In their order, in groups of so many bytes at most. A longer one stands alone. At least one group. */
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

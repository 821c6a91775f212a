// The encoding of ZooKeeper's protocol (Jute): big-endian numbers, and strings, buffers and lists after their
// length. The reader rejects whatever does not fit the bytes with a ProtocolError.

export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

const FIRST_SIZE = 128;

export class JuteWriter {
  #bytes: Buffer;
  #at: number;

  /** `reserve`: bytes at the front for the length of the frame. */
  constructor(reserve = 0) {
    this.#bytes = Buffer.allocUnsafe(FIRST_SIZE + reserve);
    this.#at = reserve;
  }

  int(value: number): this {
    this.#need(4);
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
    return this;
  }

  long(value: bigint): this {
    this.#need(8);
    this.#at = this.#bytes.writeBigInt64BE(value, this.#at);
    return this;
  }

  bool(value: boolean): this {
    this.#need(1);
    this.#at = this.#bytes.writeUInt8(value ? 1 : 0, this.#at);
    return this;
  }

  /** null is a buffer of length -1. */
  buffer(value: Uint8Array | null): this {
    if (value === null) return this.int(-1);
    this.int(value.length);
    this.#need(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
    return this;
  }

  string(value: string): this {
    const length = Buffer.byteLength(value);
    this.int(length);
    this.#need(length);
    this.#at += this.#bytes.write(value, this.#at);
    return this;
  }

  list<T>(values: readonly T[], write: (value: T) => void): this {
    this.int(values.length);
    for (const value of values) write(value);
    return this;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }

  #need(count: number): void {
    const wanted = this.#at + count;
    if (wanted <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(wanted, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

export class JuteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  int(): number {
    return this.#bytes.readInt32BE(this.#take(4));
  }

  long(): bigint {
    return this.#bytes.readBigInt64BE(this.#take(8));
  }

  bool(): boolean {
    return this.#bytes[this.#take(1)] !== 0;
  }

  buffer(): Buffer | null {
    const length = this.int();
    if (length < -1) throw new ProtocolError(`a buffer of length ${length}`);
    if (length === -1) return null;
    const from = this.#take(length);
    return this.#bytes.subarray(from, from + length);
  }

  /** A missing string is empty: the server sends it for "no path". */
  string(): string {
    return this.buffer()?.toString("utf8") ?? "";
  }

  list<T>(read: () => T): T[] {
    const length = this.int();
    if (length < -1) throw new ProtocolError(`a list of length ${length}`);
    // Each entry takes at least a byte, so a wrong length costs no memory.
    if (length > this.left) throw new ProtocolError(`a list of ${length} in ${this.left} bytes`);
    const values: T[] = [];
    for (let i = 0; i < length; i += 1) values.push(read());
    return values;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  #take(count: number): number {
    const from = this.#at;
    if (count > this.left) throw new ProtocolError(`${count} bytes wanted, ${this.left} there`);
    this.#at += count;
    return from;
  }
}
